"""Where builds, headers and measured ceilings are kept between runs."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path


def cache_dir() -> Path:
    """$CUTEGEN_CACHE, else `cutegen` under $XDG_CACHE_HOME or ~/.cache. Not created here."""
    explicit = os.environ.get("CUTEGEN_CACHE")
    if explicit:
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cutegen"


# -- Asking a tool of this machine about itself, with nothing in its environment that it need not know ----------------


_KEPT = ("PATH", "HOME", "LD_LIBRARY_PATH")


def ask(command: Sequence[str], *, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """What a compiler or driver tool prints. No key of a model's endpoint reaches it.

    Raises `OSError` where it cannot be run and `subprocess.TimeoutExpired`.
    """
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | {"LC_ALL": "C"}
    return subprocess.run([*command], env=environment, capture_output=True, text=True, timeout=timeout_s)


# -- How much memory this process's machine, or its container, has ----------------------------------------------------


_CONTAINERS = Path("/sys/fs/cgroup/memory.max")


def memory_bytes(limit_file: Path = _CONTAINERS) -> int:
    """All of it, in use or not: the machine's, or less where a container is given less."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # no container, or "max"
        return min(machine, int(limit_file.read_text(encoding="ascii")))
    return machine


# -- When this process began: what its user has waited for since ------------------------------------------------------


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
