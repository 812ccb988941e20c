"""How fast a drop-in is for its caller."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from harness.nouns.frozen import Frozen, SanitizedText

OPEN = 100.0
"""An interval whose ends are so many times apart says nothing."""
TOO_FEW = "open: too few rounds"


class Interval(Frozen):
    """A confidence interval, of 95 % where nothing else is said."""

    low: float
    high: float

    @property
    def is_open(self) -> bool:
        """Whether it leaves everything open, as that of very few rounds does."""
        return self.high >= OPEN * self.low

    def said(self, digits: int = 2, between: str = " to ") -> str:
        """In words: its ends, or that nobody knows."""
        return TOO_FEW if self.is_open else f"{self.low:.{digits}f}{between}{self.high:.{digits}f}"

    @property
    def inverse(self) -> Self:
        """That of the other side's factor."""
        return type(self)(low=1 / self.high, high=1 / self.low)


class AsCalled(Frozen):
    """The drop-in beside eager, both called alike: medians in ms a call, `speedup` is baseline / drop-in."""

    ms: float = Field(gt=0)
    baseline_ms: float = Field(gt=0)
    speedup: float = Field(gt=0)
    interval: Interval


class CallerTiming(Frozen):
    """The exported drop-in in a process that has PyTorch, by turns with eager, on the same inputs again and again.

    Calls are only queued (`back_to_back`), or each is waited for (`synchronized`; absent on a processor, where calls
    return when they are done). Where eager's call is short, both are also `graphed`: calls as one CUDA graph, which
    cost no launch each, and on which no verdict rests; `ungraphed` says why that could not be had. The candidate's code
    is in that process, and can only be believed where it is slower.
    """

    back_to_back: AsCalled
    synchronized: AsCalled | None = None
    graphed: AsCalled | None = None
    ungraphed: SanitizedText = ""
    rounds: int = Field(ge=1)
