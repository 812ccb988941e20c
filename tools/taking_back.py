"""One change taken back out of a later source, as in a merge of three texts: by lines, and only where it is sure."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher


@dataclass(frozen=True)
class _Edit:
    """Lines `begin` to `end` of a text, in whose place others come."""

    begin: int
    end: int
    lines: tuple[str, ...]

    def meets(self, other: _Edit) -> bool:
        """Whether both want the same lines, or one wants to stand within, or at an end of, the other's."""
        if self.begin == self.end or other.begin == other.end:
            return self.begin <= other.end and other.begin <= self.end
        return max(self.begin, other.begin) < min(self.end, other.end)


def taken_back(before: str, after: str, final: str) -> str | None:
    """`final` without what turned `before` into `after`; None where later changes stand on the same lines."""
    base = after.splitlines(keepends=True)
    back, later = _edits(base, before.splitlines(keepends=True)), _edits(base, final.splitlines(keepends=True))
    if any(one.meets(other) for one in back for other in later):
        return None
    for edit in sorted((*back, *later), key=lambda each: each.begin, reverse=True):
        base[edit.begin : edit.end] = edit.lines
    return "".join(base)


def _edits(old: list[str], new: list[str]) -> list[_Edit]:
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [_Edit(i1, i2, tuple(new[j1:j2])) for tag, i1, i2, j1, j2 in codes if tag != "equal"]
