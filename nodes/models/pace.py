"""How fast one endpoint may be asked: by all runs of this process together."""

from __future__ import annotations

import threading

from langchain_core.rate_limiters import BaseRateLimiter, InMemoryRateLimiter

_LOOKS_A_MINUTE = 1200

_lock = threading.Lock()
_limiters: dict[tuple[str, float], BaseRateLimiter] = {}


def limiter_of(base_url: str, requests_per_minute: float) -> BaseRateLimiter:
    """The limiter that everyone shares who asks this endpoint at this rate. Requests are spaced evenly."""
    key = (base_url, requests_per_minute)
    with _lock:
        if key not in _limiters:
            _limiters[key] = InMemoryRateLimiter(
                requests_per_second=requests_per_minute / 60,
                check_every_n_seconds=60 / _LOOKS_A_MINUTE,
                max_bucket_size=1,
            )
        return _limiters[key]
