"""Turns on a device: timing has it alone, what only watches shares it, and each thread's time on it is counted."""

from __future__ import annotations

import fcntl
import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from harness.machine.cache import cache_dir
from harness.nouns.device import DeviceName

PLACES = 4
"""Evaluations that may share a device: each starts several processes, and none should keep the others from ending."""


class _Held(threading.local):
    seconds = 0.0


_held = _Held()


@contextmanager
def one_at_a_time(device: DeviceName) -> Iterator[None]:
    """Have the device alone, for two timings at once would disturb each other, and so would whatever else runs there.

    Threads of this process take turns, and so do processes, by the device's UUID.
    """
    with ExitStack() as held:
        _enter(held, _lock(device, "timing"), fcntl.LOCK_EX, _lock(device, "next"))
        with counted():
            yield


@contextmanager
def beside_others(device: DeviceName) -> Iterator[None]:
    """Share the device with up to `PLACES` others that are not timed; never while somebody has it alone.

    Be short: who wants it alone waits for those inside. Nobody comes in while one waits, so that their wait ends when
    those inside have left, however many stand behind.
    """
    with ExitStack() as held:
        _take(held, _lock(device, f"place-{random.randrange(PLACES)}"), fcntl.LOCK_EX)  # before any turn is awaited
        _enter(held, _lock(device, "timing"), fcntl.LOCK_SH, _lock(device, "next"))
        with counted():
            yield


def held_s() -> float:
    """Seconds for which this thread has had a device, alone or not. The waits for its turns, and builds, are none."""
    return _held.seconds


def _enter(held: ExitStack, device: Path, how: int, queue: Path) -> None:
    """Take the device. Only who stands first in the queue may wait for it, and the next one stands first after that."""
    with ExitStack() as waiting:
        _take(waiting, queue, fcntl.LOCK_EX)
        _take(held, device, how)


def _take(held: ExitStack, path: Path, how: int) -> None:
    """Wait for the lock of a file. Each opening of it counts by itself, so that threads exclude each other, too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fcntl.flock(held.enter_context(path.open("w")), how)


@contextmanager
def counted() -> Iterator[None]:
    """Count what is done within as this thread's time on a device."""
    began = time.monotonic()
    try:
        yield
    finally:
        _held.seconds += time.monotonic() - began


def _lock(device: DeviceName, kind: str) -> Path:
    name = "-".join([kind, device.target, *re.findall(r"\w+", device.uuid)])
    return cache_dir() / f"{name}.lock"
