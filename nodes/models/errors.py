"""Why a model could not be asked at all. What a model answers badly is not here: that goes back to the model."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from harness.nouns.errors import MachineError, UserError
from nodes.state import Usage


class ModelUnavailableError(MachineError):
    """The model's endpoint is down, refuses the key, is over its quota, or does not speak the protocol.

    `lost` is what its answers cost that were billed and then broke.
    """

    lost: Usage = Usage()


class ReplayMismatchError(UserError):
    """The run asked something that the recording does not hold; `difference` is a short unified diff."""

    def __init__(self, problem: str, remedy: str, difference: str = "") -> None:
        super().__init__(f"{problem}\n{difference}\n" if difference else problem, remedy)
        self.difference = difference


class ScriptExhaustedError(RuntimeError):
    """A scripted model was asked more often than its script has answers: the test or demo is wrong."""


# -- Until when a model may answer: a run's budget of time holds within a call, retries and pauses included -----------


_until: ContextVar[float] = ContextVar("until", default=math.inf)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Bound the model calls of this thread's block together."""
    token = _until.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _until.reset(token)


def left_s() -> float:
    """What is left, in seconds, at least 0; infinite where nobody set a bound."""
    return max(0.0, _until.get() - time.monotonic())
