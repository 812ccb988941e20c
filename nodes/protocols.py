"""What the plumbing needs of a run: a graph whose state has so much uses nodes, turns, judge and tools as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from harness.nouns.candidate import TargetName
from harness.nouns.task import Task
from harness.nouns.tier import Tier
from harness.nouns.verdict import Verdict
from nodes.state import Best, Usage


class Clock(Protocol):
    """What a node adds its time to: a pydantic model whose field `seconds` sums up."""

    @property
    def seconds(self) -> float:
        """The time spent in nodes so far."""
        ...


class Account(Clock, Protocol):
    """What a turn looks its budgets up in; the number of its calls is the next exchange's, unless said otherwise."""

    @property
    def attempts(self) -> int:
        """Kernels tested so far."""
        ...

    @property
    def device_seconds(self) -> float:
        """What those kernels held the device for."""
        ...

    @property
    def usage(self) -> Usage:
        """What the models cost so far."""
        ...


class JudgedRun(Protocol):
    """What judge and tools of a node are made for. `target` and `tier` are settled before either is asked for."""

    @property
    def task(self) -> Task | None:
        """What the kernels are to do."""
        ...

    @property
    def target(self) -> TargetName | None:
        """Where they run."""
        ...

    @property
    def tier(self) -> Tier | None:
        """How they are isolated."""
        ...

    @property
    def verdict(self) -> Verdict | None:
        """The last word on a kernel."""
        ...

    @property
    def best(self) -> Best | None:
        """The kernel that a new one is timed against."""
        ...


@dataclass(frozen=True)
class Spent:
    """An account at one moment."""

    attempts: int
    seconds: float
    device_seconds: float
    usage: Usage


def with_turn(run: Account, usage: Usage, seconds: float) -> Spent:
    """The run's account with what a turn has used up by now, which the run does not know of before the turn's end."""
    return Spent(run.attempts, run.seconds + seconds, run.device_seconds, run.usage + usage)
