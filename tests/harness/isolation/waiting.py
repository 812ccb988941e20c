"""What tests of processes wait for, and how they see that one is gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def eventually(fact: Callable[[], bool], within_s: float = 20) -> bool:
    """Whether `fact` comes true in time."""
    deadline = time.monotonic() + within_s
    while not fact():
        if time.monotonic() > deadline:
            return False
    return True


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that waits for its parent to take notice of its end does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()[0] not in b"ZX"
    except OSError:
        return False
