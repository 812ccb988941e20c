"""What each judged kernel changed, and how far off its outputs were at worst."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from graph.pages.highlight import cpp_lines
from graph.pages.report_diff import Pair, side_by_side
from graph.runs.record import RunRecord
from harness.nouns.frozen import Frozen
from harness.nouns.verdict import OutputError, Verdict
from nodes.state import Step, Variant

MOST_LINES, LEAST_LINES = 4000, 60
"""Of all changes together, shared out among them, and of any one."""


class WorstError(Frozen):
    """One output's largest error over all comparisons of a verdict, beside the reference's own."""

    distribution: str
    seed: int
    error: OutputError


@dataclass(frozen=True)
class Change:
    """One judged kernel: what was changed, and what the judge said. The first draft has no `parent`, and `lines`.

    `hunks` are pairs of lines, `left` how many more are not shown. `variants` are those of the sweep that chose it.
    """

    step: Step
    author: str
    digest: str
    parent: str | None
    hunks: list[list[Pair]]
    left: int
    added: int
    removed: int
    lines: tuple[Markup, ...]
    verdict: Verdict | None
    errors: tuple[WorstError, ...]
    variants: tuple[Variant, ...] = ()


def changes(record: RunRecord) -> list[Change]:
    """Every kernel the judge saw, in order, each with its difference to the kernel it came from."""
    seen: dict[str, Step] = {}
    for step in record.steps:
        if step.agent == "tester" and step.candidate in record.candidates:
            seen.setdefault(step.candidate, step)
    room = max(LEAST_LINES, MOST_LINES // max(1, len(seen)))
    return [_change(record, step, digest, room) for digest, step in seen.items()]


def worst_errors(verdict: Verdict) -> tuple[WorstError, ...]:
    """For each output the comparison with the largest error; a failing one comes before all passing ones."""
    worst: dict[str, WorstError] = {}
    trials = verdict.correctness.trials if verdict.correctness else ()
    for trial in trials:
        for error in trial.outputs:
            rank = (error.bad_fraction, error.max_scaled)
            known = worst.get(error.output)
            if known is None or rank > (known.error.bad_fraction, known.error.max_scaled):
                worst[error.output] = WorstError(distribution=trial.distribution, seed=trial.seed, error=error)
    return tuple(worst.values())


def _change(record: RunRecord, step: Step, digest: str, room: int) -> Change:
    candidate = record.candidates[digest]
    parent = record.candidates.get(candidate.parent or "")
    verdict = record.verdicts.get(digest)
    found = side_by_side(parent.source, candidate.source) if parent else []
    changed = [pair for hunk in found for pair in hunk if pair.kind == "changed"]
    shown = within(found, room)
    return Change(
        step=step,
        author=candidate.author,
        digest=digest,
        parent=parent.digest if parent else None,
        hunks=shown,
        left=sum(map(len, found)) - sum(map(len, shown)),
        added=sum(pair.new is not None for pair in changed),
        removed=sum(pair.old is not None for pair in changed),
        lines=() if parent else cpp_lines(candidate.source),
        verdict=verdict,
        errors=worst_errors(verdict) if verdict else (),
        variants=next((each.variants for each in record.steps if each.variants and each.candidate == digest), ()),
    )


def within(hunks: list[list[Pair]], room: int) -> list[list[Pair]]:
    """The hunks as far as so many lines reach."""
    shown = []
    for hunk in hunks:
        if room > 0:
            shown.append(hunk[:room])
        room -= len(hunk)
    return shown
