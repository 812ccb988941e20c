"""When this process began: what its user has waited for since."""

from __future__ import annotations

import os
import time
from pathlib import Path

_BEGAN = 19
"""Of the fields behind the name in /proc/self/stat: clock ticks from the machine's start to the process's."""


def process_began() -> float:
    """By the monotonic clock; now, where the system does not tell."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[_BEGAN]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        age_s = 0.0
    return time.monotonic() - max(0.0, age_s)
