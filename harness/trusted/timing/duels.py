"""Which of two kernels is faster, and by which measure: wall time, or CPU time where others kept threads waiting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from harness.nouns.verdict import HeadToHead, Interval, Measure
from harness.trusted.link import Spent
from harness.trusted.timing.statistics import faster_half_ratio, ranked_ratio

WAITED = 0.05
"""Of a burst's wall time: a longer wait of its threads for a processor, in the median round, is no chance meeting."""
LEAST_SHARE = 0.1
"""At least so much of a burst would have been left without any wait: those of several threads overlap."""
BESIDE = 0.02
"""Of what is computed: a larger share beside the first thread, where teams have one thread, is another team."""
OTHER_TEAM = 0.1
"""Shares computed beside the first thread that are further apart belong to kernels that use threads otherwise."""


@dataclass
class Taken:
    """What a call of one side took, round by round, in seconds.

    Of a kernel's the system may tell more: how long its threads `waited_s` for a processor, added up, and which share
    of the computing was done `beside` its first thread. Rounds on one thread count by themselves: `alone_s` is what a
    call computed there, `alone_beside` the share of that beside the first thread.
    """

    wall_s: list[float] = field(default_factory=list)
    waited_s: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    alone_s: list[float] = field(default_factory=list)
    alone_beside: list[float] = field(default_factory=list)

    def note(self, wall_s: float, spent: Spent | None) -> None:
        """A round on all threads."""
        self.wall_s.append(wall_s)
        if spent and spent.calls:
            self.waited_s.append(spent.waited_s / spent.calls)
            self.beside.append(_share(spent))

    def note_alone(self, spent: Spent | None, message_s: float) -> None:
        """A round on one thread, with an order that costs `message_s` beside the calls."""
        if spent and spent.calls:
            self.alone_s.append(max(spent.cpu_s - message_s, LEAST_SHARE * spent.cpu_s) / spent.calls)
            self.alone_beside.append(_share(spent))

    @property
    def told(self) -> bool:
        """Whether it is known of every round how long its threads waited."""
        return 0 < len(self.wall_s) == len(self.waited_s)

    @property
    def unhindered_s(self) -> list[float]:
        """The least that its rounds could have taken, had no thread waited."""
        return [max(wall - waited, LEAST_SHARE * wall) for wall, waited in zip(self.wall_s, self.waited_s, strict=True)]

    @property
    def hindered(self) -> bool:
        """Whether its threads waited in more than every second round."""
        return self.told and median(np.divide(self.waited_s, self.wall_s)) > WAITED


def _share(spent: Spent) -> float:
    return spent.beside_s / max(spent.cpu_s, 1e-9)


def head_to_head(incumbent: str, theirs: Taken, ours: Taken) -> HeadToHead:
    """Of rounds that an incumbent, by its digest, and a candidate had in common.

    Wall time decides where it does so whatever each side's waits came to; else CPU time, where both computed on one
    thread and use their threads alike. Of two that decide nothing the narrower is told.
    """
    met = _by_wall_time(incumbent, theirs, ours)
    if met.outcome != "undecided":
        return met
    if why := incomparable(theirs, ours):
        return met.model_copy(update={"alone": why}) if theirs.told and ours.told else met  # as on a GPU
    by_cpu = _by_cpu_time(incumbent, theirs, ours)
    if by_cpu is None or (by_cpu.outcome == "undecided" and _width(by_cpu) > _width(met)):
        return met
    return by_cpu


def _by_wall_time(incumbent: str, theirs: Taken, ours: Taken) -> HeadToHead:
    """The interval reaches to where it would were the waits of one side, and of that alone, taken off: one process can
    be the worse placed throughout."""
    speedup, interval = faster_half_ratio(theirs.wall_s, ours.wall_s)
    if theirs.told and ours.told:
        low = faster_half_ratio(theirs.unhindered_s, ours.wall_s)[1].low
        high = faster_half_ratio(theirs.wall_s, ours.unhindered_s)[1].high
        interval = Interval(low=min(low, interval.low), high=max(high, interval.high))
    return _met(incumbent, theirs, speedup, interval, len(ours.wall_s), "wall time")


def _by_cpu_time(incumbent: str, theirs: Taken, ours: Taken) -> HeadToHead | None:
    """None where the two have not computed on one thread each."""
    if not ours.alone_s:
        return None
    speedup, interval = ranked_ratio(theirs.alone_s, ours.alone_s)
    return _met(incumbent, theirs, speedup, interval, len(ours.alone_s), "CPU time")


def _met(
    incumbent: str, theirs: Taken, speedup: float, interval: Interval, rounds: int, measure: Measure
) -> HeadToHead:
    return HeadToHead(
        incumbent=incumbent,
        incumbent_ms=median(theirs.wall_s) * 1e3,
        speedup=speedup,
        interval=interval,
        rounds=rounds,
        measure=measure,
    )


def incomparable(theirs: Taken, ours: Taken) -> str:
    """Why what two kernels compute on one thread does not say which one is faster; empty where it does: the system
    tells it, they have one thread when they are asked to, and with all threads they leave the same share of the work to
    the others."""
    if not (theirs.told and ours.told):
        return "the system does not tell CPU time"
    if any(_above(each.alone_beside, BESIDE) for each in (theirs, ours)):
        return "one of them has threads of its own"
    if abs(median(theirs.beside) - median(ours.beside)) > OTHER_TEAM:
        return "they use threads differently"
    return ""


def _above(shares: Sequence[float], limit: float) -> bool:
    return bool(shares) and median(shares) > limit


def _width(met: HeadToHead) -> float:
    return met.interval.high / met.interval.low
