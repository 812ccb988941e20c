"""How fast one endpoint may be asked: by all runs of this process together."""

from __future__ import annotations

import threading
import time

from langchain_core.rate_limiters import BaseRateLimiter, InMemoryRateLimiter

from harness.wire.stopping import pause

_LOOK_EVERY_S = 0.05

_lock = threading.Lock()
_limiters: dict[tuple[str, float], BaseRateLimiter] = {}


def limiter_of(base_url: str, requests_per_minute: float) -> BaseRateLimiter:
    """The limiter that everyone shares who asks this endpoint at this rate. Requests are spaced evenly."""
    key = (base_url, requests_per_minute)
    with _lock:
        if key not in _limiters:
            _limiters[key] = InMemoryRateLimiter(
                requests_per_second=requests_per_minute / 60,
                max_bucket_size=1,
            )
        return _limiters[key]


def take_turn(limiter: BaseRateLimiter, within_s: float) -> bool:
    """Wait for one's turn, so long at most; whether it came. The limiter itself would wait for ever."""
    until = time.monotonic() + within_s
    while not limiter.acquire(blocking=False):
        if time.monotonic() >= until:
            return False
        pause(_LOOK_EVERY_S)
    return True
