"""The report of a run: one HTML page that needs nothing beside itself, readable in light and dark."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from graph.pages.lineage import lineage, model_of, operator_of, yields
from graph.pages.moves import worths
from graph.pages.report_chart import roofline, trajectory
from graph.pages.report_diff import Hunk, hunks
from graph.runs.record import RunRecord
from harness.nouns.frozen import Frozen
from harness.nouns.profile import Profile
from harness.nouns.verdict import OutputError, Timing, Verdict
from harness.profile.render import render as render_profile
from harness.profile.render import say_phases
from nodes.history import say_decision
from nodes.state import Step, Usage, Variant
from tools.sweep import say_values
from tools.wording import say_caller, say_clock, say_oracle, say_smaller, say_tolerance, say_trials

WIDE, NARROW = 940, 400

TEMPLATES = Path(__file__).parent / "templates"

OUTCOMES = {
    "improved": "Faster than the baseline, and as accurate.",
    "nothing_faster": "No kernel was faster than the baseline beyond the noise.",
    "interrupted": "Interrupted. The best kernel so far is kept; the run can be resumed.",
    "waiting": "A question waits for its answer. The best kernel so far is kept.",
    "running": "This run has not ended yet.",
}


class WorstError(Frozen):
    """One output's largest error over all comparisons of a verdict, beside the reference's own."""

    distribution: str
    seed: int
    error: OutputError


class Change(Frozen):
    """One judged kernel: what was changed, and what the judge said. The first draft has no `parent`.

    `variants` are those of the sweep that chose it.
    """

    step: Step
    author: str
    digest: str
    parent: str | None
    hunks: tuple[Hunk, ...]
    added: int
    removed: int
    source: str
    verdict: Verdict | None
    errors: tuple[WorstError, ...]
    variants: tuple[Variant, ...] = ()


def render(record: RunRecord) -> str:
    """The page."""
    return filled_in("report.html.j2", view(record))


def _called(timing: Timing | None) -> list[str]:
    """Whose clock the speed-up on top is of, and what the drop-in's caller gets."""
    return [line for line in (say_clock(timing), *say_caller(timing).splitlines()) if line] if timing else []


def filled_in(template: str, values: dict[str, Any]) -> str:
    """A template with these values. Whatever came from a kernel, a model or a task file is escaped."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters.update(
        ms=_ms,
        share=_share,
        small=_small,
        clock=_clock,
        values=say_values,
        decided=say_decision,
        oracle=say_oracle,
        trials=say_trials,
        tolerance=say_tolerance,
    )
    return environment.get_template(template).render(values)


def view(record: RunRecord) -> dict[str, Any]:
    """The values that the template shows, by name."""
    profiles = _profiles(record)
    return {
        "record": record,
        "headline": OUTCOMES[record.outcome] if record.outcome != "nothing_faster" or not record.degenerate else "",
        "called": _called(record.timing),
        "plots": [trajectory(record, width) for width in (WIDE, NARROW)],
        "roofs": [roofline(profiles, width) for width in (WIDE, NARROW)],
        "profile": profiles[-1][1] if profiles else None,
        "counters": render_profile(profiles[-1][1]) if profiles and profiles[-1][1].kernels else "",
        "phases": "\n".join(say_phases(profiles[-1][1])) if profiles else "",
        "watched_smaller": say_smaller(record.best.verdict.sanitizers) if record.best else [],
        "changes": changes(record),
        "worths": worths(record),
        "costs": _costs(record),
        "lineage": lineage(record),
        "yields": [("operator", yields(record, operator_of)), ("model", yields(record, model_of))],
        "settings": {name: value for name, value in record.settings.items() if value not in (None, "", {}, [])},
    }


def changes(record: RunRecord) -> list[Change]:
    """Every kernel the judge saw, in order, each with its difference to the kernel it came from."""
    seen: set[str] = set()
    found = []
    for step in record.steps:
        if step.agent != "tester" or step.candidate not in record.candidates or step.candidate in seen:
            continue
        seen.add(step.candidate)
        found.append(_change(record, step, step.candidate))
    return found


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


def _change(record: RunRecord, step: Step, digest: str) -> Change:
    candidate = record.candidates[digest]
    parent = record.candidates.get(candidate.parent or "")
    found = hunks(parent.source, candidate.source) if parent else ()
    lines = [line for hunk in found for line in hunk.lines]
    verdict = record.verdicts.get(digest)
    return Change(
        step=step,
        author=candidate.author,
        digest=digest,
        parent=parent.digest if parent else None,
        hunks=found,
        added=sum(line.kind == "added" for line in lines),
        removed=sum(line.kind == "removed" for line in lines),
        source=candidate.source,
        verdict=verdict,
        errors=worst_errors(verdict) if verdict else (),
        variants=next((each.variants for each in record.steps if each.variants and each.candidate == digest), ()),
    )


def _profiles(record: RunRecord) -> list[tuple[str, Profile]]:
    """The profiles in the order their kernels were judged, each with a short label."""
    depths = {step.candidate: step.depth for step in reversed(record.steps) if step.agent == "tester"}
    ordered = sorted(record.profiles.items(), key=lambda item: depths.get(item[0], 0))
    return [(f"depth {depths.get(digest, 0)}", profile) for digest, profile in ordered]


def _costs(record: RunRecord) -> list[tuple[str, int, float, Usage]]:
    """A row an agent: name, steps, seconds, what its model used."""
    rows: dict[str, list[Step]] = defaultdict(list)
    for step in record.steps:
        rows[step.agent].append(step)
    return [
        (agent, len(steps), sum(step.seconds for step in steps), sum((step.usage for step in steps), Usage()))
        for agent, steps in rows.items()
    ]


def _ms(value: float) -> str:
    return f"{value:.3g} ms" if value < 1000 else f"{value / 1000:.3g} s"


def _share(value: float) -> str:
    return f"{value:.0%}"


def _small(value: float) -> str:
    return f"{value:.2e}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{seconds:.1f} s" if seconds < 60 else f"{minutes} min {rest} s"
