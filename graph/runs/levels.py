"""How fast each kernel of a run is beside the others, on one scale: what the report's curve and tables show.

A kernel's own speed-up over eager was measured in rounds of its own, on a machine that was another one in the next.
The scale hangs on the kernels that were timed together at the end; where that was not done, on the best one. All
others stand on it by the head-to-heads in which they met them.
"""

from __future__ import annotations

from collections.abc import Iterator

from graph.runs.record import RunRecord
from harness.nouns.frozen import Frozen
from harness.nouns.verdict import HeadToHead, Interval
from nodes.state import Step


class Level(Frozen):
    """A kernel's speed-up over eager on the run's scale, with its interval."""

    speedup: float
    interval: Interval


def levels(record: RunRecord) -> dict[str, Level]:
    """Of every kernel that was timed, by its digest."""
    tests = [step for step in record.steps if step.agent == "tester" and step.candidate]
    found = dict(_together(record))
    kept = [step for step in tests if step.improved]
    for step in reversed(kept):
        met, mine = _met(step), found.get(step.candidate or "") or _alone(record, step)
        if mine and met and met.incumbent not in found:
            found[met.incumbent] = _times(mine, 1 / met.speedup, 1 / met.interval.high, 1 / met.interval.low)
        if mine:
            found.setdefault(step.candidate or "", mine)
    for step in tests:
        met = _met(step)
        theirs = found.get(met.incumbent) if met else None
        mine = _times(theirs, met.speedup, met.interval.low, met.interval.high) if met and theirs else None
        if mine := mine or _alone(record, step):
            found.setdefault(step.candidate or "", mine)
    return found


def stair(record: RunRecord, found: dict[str, Level]) -> dict[str, float]:
    """The curve: of each kernel that was the best once and led to the result, how fast the best was from then on.

    It does not fall: each of them beat the one before it, so a level above a later one's is within what that leaves
    open, and the kernel is drawn no higher than that.
    """
    result = record.best.candidate.digest if record.best else None
    tests = [step for step in record.steps if step.agent == "tester"]
    path = [*dict.fromkeys(step.candidate for step in tests if step.improved or step.candidate == result)]
    path = [digest for digest in path if digest in found]
    path = path[: path.index(result) + 1] if result in path else path
    drawn, least = dict[str, float](), float("inf")
    for digest in reversed(path):
        least = min(least, found[digest or ""].speedup)
        drawn[digest or ""] = least
    return drawn


def _together(record: RunRecord) -> Iterator[tuple[str, Level]]:
    for each in record.final.standings:
        yield each.candidate, Level(speedup=each.timing.speedup, interval=each.timing.speedup_interval)
    timing, best = record.timing, record.best
    if timing and best and not record.final.standings:
        yield best.candidate.digest, Level(speedup=timing.speedup, interval=timing.speedup_interval)


def _alone(record: RunRecord, step: Step) -> Level | None:
    verdict = record.verdicts.get(step.candidate or "")
    timing = verdict.timing if verdict else None
    return Level(speedup=timing.speedup, interval=timing.speedup_interval) if timing else None


def _met(step: Step) -> HeadToHead | None:
    return step.head_to_head if step.status == "passed" else None


def _times(level: Level, gain: float, low: float, high: float) -> Level:
    """A kernel so many times as fast, somewhere between these gains."""
    speedup = level.speedup
    return Level(speedup=speedup * gain, interval=Interval(low=speedup * low, high=speedup * high))
