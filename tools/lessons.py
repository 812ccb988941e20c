"""Lessons of other runs: what a judged move was worth on a near task, with the lines that it changed."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator

from harness.nouns.candidate import TargetName
from harness.nouns.errors import MachineError
from harness.nouns.frozen import Frozen, Label, SanitizedText
from harness.nouns.task import Task
from harness.nouns.verdict import outcome_of
from tools.archive import Archive, Made
from tools.bare_source import without_comments

MOST_LINES = 12
"""Of a difference: a lesson is a hint at how, and no kernel."""
MOST_CHARS = 100
SAME = 0.02
"""A factor nearer to 1 teaches nothing."""


class Lesson(Frozen):
    """One judged move: what it was worth, and the beginning of what it changed."""

    said: Label
    diff: SanitizedText


def lessons(archive: Archive, task: Task, target: TargetName, device: str, *, but: str) -> Iterator[Lesson]:
    """Wins and losses on the tasks most like this one, the nearest first, each move once; on this device before others.

    What a machine could not tell is no lesson, nor is what failed and was repaired. Nothing comes of an archive that
    cannot be used just now; raises `UserError` for what is no such archive.
    """
    try:
        made = archive.moves(task, target, but=but)
    except MachineError:
        return
    repaired = {(each.parent, each.move) for each in made if each.verdict.timing}
    told = set[str]()
    for each in sorted(made, key=lambda each: each.device != device):
        worth = _worth(each)
        if not each.verdict.timing and (each.parent, each.move) in repaired:
            continue
        if worth and each.move not in told:
            told.add(each.move)
            yield Lesson(said=f"{each.move}: {worth} ({each.op_class}, {each.device})", diff=_changed(each))


def _worth(made: Made) -> str:
    """What the judge found: a factor over the kernel before, or what is wrong; empty where that is not known."""
    timing = made.verdict.timing
    if timing is None:
        return f"failed ({made.verdict.check or made.verdict.status})"
    met = timing.head_to_head
    if met and met.incumbent == made.parent:
        outcome, factor = met.outcome, met.speedup
    else:
        outcome, factor = outcome_of(timing.speedup_interval, made.was), timing.speedup / made.was
    if outcome == "undecided" or abs(math.log(factor)) < SAME:
        return ""
    return f"{factor:.2f}x"


def _changed(made: Made) -> str:
    before, after = (without_comments(source).splitlines() for source in (made.before, made.source))
    lines = difflib.unified_diff(before, after, n=0, lineterm="")
    changed = [line[:MOST_CHARS] for line in lines if line[:2] not in ("--", "++", "@@") and line[1:].strip()]
    left = len(changed) - MOST_LINES
    return "\n".join([*changed[:MOST_LINES], *([f"({left} more lines)"] if left > 0 else [])])
