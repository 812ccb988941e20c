"""Until when a model may answer: a run's budget of time holds within a call, retries and pauses included."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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
