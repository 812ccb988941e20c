"""One end for everything that somebody waits for, handed down to whatever blocks."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass

from harness.wire.stopping import limited


@dataclass(frozen=True)
class Deadline:
    """The end of a budget, `ends_at` by the monotonic clock, which every process of a machine shares."""

    budget_s: float
    ends_at: float

    @classmethod
    def of(cls, budget_s: float, spent_s: float = 0.0) -> Deadline:
        """That of a budget of which so much was spent by now."""
        return cls(budget_s, time.monotonic() + budget_s - spent_s)

    @property
    def left_s(self) -> float:
        """Seconds until the end; below 0 behind it."""
        return self.ends_at - time.monotonic()

    @property
    def spent_s(self) -> float:
        """What is gone of the budget."""
        return self.budget_s - self.left_s

    def before(self, reserve_s: float) -> Deadline:
        """The same budget's end with so many seconds kept for what comes after; less than 0 makes it later."""
        return Deadline(self.budget_s, self.ends_at - reserve_s)

    def limiting(self) -> AbstractContextManager[None]:
        """Work that is ended then, whatever blocks in it. Raises `TimeIsOverError`."""
        return limited(self.left_s)
