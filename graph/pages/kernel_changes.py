"""What each judged kernel changed, and how far off its outputs were at worst."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Literal

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers.c_cpp import CppLexer
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Number, String
from pygments.token import Literal as LiteralToken

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


# -- The difference of two kernels: lines that know their number on both sides, and both sides beside each other ------


CONTEXT_LINES = 3


class DiffLine(Frozen):
    """One line. `old` and `new` are its 1-based numbers; an added line has no `old`, a removed one no `new`."""

    kind: Literal["same", "added", "removed"]
    old: int | None = None
    new: int | None = None
    text: str


class Hunk(Frozen):
    """Neighbouring changes with a few unchanged lines around them."""

    lines: tuple[DiffLine, ...]


def hunks(old: str, new: str) -> tuple[Hunk, ...]:
    """What turns `old` into `new`; empty where they are the same."""
    before, after = old.splitlines(), new.splitlines()
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return tuple(
        Hunk(lines=tuple(line for opcode in group for line in _lines(opcode, before, after)))
        for group in matcher.get_grouped_opcodes(CONTEXT_LINES)
    )


def _lines(opcode: tuple[str, int, int, int, int], before: list[str], after: list[str]) -> list[DiffLine]:
    tag, i1, i2, j1, j2 = opcode
    if tag == "equal":
        return [DiffLine(kind="same", old=i1 + k + 1, new=j1 + k + 1, text=before[i1 + k]) for k in range(i2 - i1)]
    removed = [DiffLine(kind="removed", old=i + 1, text=before[i]) for i in range(i1, i2)]
    added = [DiffLine(kind="added", new=j + 1, text=after[j]) for j in range(j1, j2)]
    return removed + added


@dataclass(frozen=True)
class Pair:
    """A line of the old text beside one of the new, coloured; a side without a number has none here."""

    kind: Literal["same", "changed"]
    old: int | None
    before: Markup
    new: int | None
    after: Markup


def side_by_side(old: str, new: str) -> list[list[Pair]]:
    """The hunks of two kernels as pairs of lines: what went stands beside what came in its place."""
    before, after = cpp_lines(old), cpp_lines(new)
    return [list(_pairs(hunk, before, after)) for hunk in hunks(old, new)]


def _pairs(hunk: Hunk, before: tuple[Markup, ...], after: tuple[Markup, ...]) -> Iterator[Pair]:
    went: list[int] = []
    came: list[int] = []
    for line in hunk.lines:
        if line.kind == "removed" and line.old and not came:
            went.append(line.old)
            continue
        if line.kind == "added" and line.new:
            came.append(line.new)
            continue
        yield from _changed(went, came, before, after)
        went, came = ([line.old], []) if line.kind == "removed" and line.old else ([], [])
        if line.kind == "same" and line.old and line.new:
            yield Pair("same", line.old, before[line.old - 1], line.new, after[line.new - 1])
    yield from _changed(went, came, before, after)


def _changed(went: list[int], came: list[int], before: tuple[Markup, ...], after: tuple[Markup, ...]) -> Iterator[Pair]:
    empty = Markup("")
    for old, new in zip_longest(went, came):
        yield Pair("changed", old, before[old - 1] if old else empty, new, after[new - 1] if new else empty)


# -- Source text with its words coloured: C++ and CUDA, and the reference's Python ------------------------------------


CLASSES: tuple[tuple[Any, str], ...] = (
    (Comment.Preproc, "p"),
    (Comment.PreprocFile, "s"),
    (Comment, "c"),
    (Keyword.Type, "t"),
    (Keyword, "k"),
    (String, "s"),
    (Number, "n"),
    (LiteralToken, "n"),
)
"""Kinds of words and their CSS classes, the narrower ones first. Names, operators and signs stay as they are."""
MOST_CHARS = 200_000
"""A longer source stays plain: colouring it would take as long as all the rest."""


def cpp_lines(source: str) -> tuple[Markup, ...]:
    """Each line of a kernel, escaped; as many as `splitlines` has."""
    if len(source) > MOST_CHARS:
        return tuple(map(escape, source.splitlines()))
    return tuple(line for part in _parts(source.splitlines()) for line in _coloured(part, CppLexer))


def python_lines(source: str) -> tuple[Markup, ...]:
    """The same of a Python file."""
    if not source or len(source) > MOST_CHARS:
        return tuple(map(escape, source.splitlines()))
    return _coloured("\n".join(source.splitlines()), PythonLexer)


def _parts(lines: list[str]) -> Iterator[str]:
    """The source cut into what can be read by itself, mostly lines: the kernels of a run have most in common."""
    held = ""
    for line in lines:
        held = f"{held}\n{line}" if held else line
        if held.count("/*") <= held.count("*/") and 'R"' not in held and not held.endswith("\\"):
            yield held
            held = ""
    if held:
        yield held


@lru_cache(maxsize=16384)
def _coloured(text: str, lexer: type[Lexer]) -> tuple[Markup, ...]:
    """The lines of a text whose lines end in one way. The lexers know a comment by its line's end."""
    lines: list[list[str]] = [[]]
    for _, kind, words in lexer().get_tokens_unprocessed(f"{text}\n"):
        first, *others = words.split("\n")
        lines[-1].append(_word(kind, first))
        lines += [[_word(kind, other)] for other in others]
    return tuple(Markup("".join(parts)) for parts in lines[:-1])


def _word(kind: Any, text: str) -> str:
    name = next((name for group, name in CLASSES if kind in group), "")
    return f'<i class="{name}">{escape(text)}</i>' if name and text.strip() else str(escape(text))
