"""The difference of two kernels, as lines that know their number on both sides."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Literal

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
