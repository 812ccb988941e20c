"""The difference of two kernels: lines that know their number on both sides, and both sides beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Literal

from markupsafe import Markup

from graph.pages.highlight import cpp_lines
from harness.nouns.frozen import Frozen

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
