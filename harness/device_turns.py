"""Turns on a device: one evaluation has it at a time, and for how long each thread had it is counted."""

from __future__ import annotations

import fcntl
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from harness.cache import cache_dir
from harness.candidate import TargetName


class _Held(threading.local):
    seconds = 0.0


_held = _Held()


@contextmanager
def one_at_a_time(target: TargetName) -> Iterator[None]:
    """Two timings at once would disturb each other: threads of this process take turns, and so do processes.

    Each device has its own turns: a machine's processor, and each choice of visible GPUs.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "") if target == "cuda" else ""
    name = "-".join(["timing", target, *re.findall(r"\w+", visible)])
    cache_dir().mkdir(parents=True, exist_ok=True)
    with _turn(name), (cache_dir() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        began = time.monotonic()
        try:
            yield
        finally:
            _held.seconds += time.monotonic() - began


def held_s() -> float:
    """Seconds for which this thread has had a device, in all. The waits for its turns, and builds, are none of them."""
    return _held.seconds


@cache
def _turn(name: str) -> threading.Lock:
    return threading.Lock()
