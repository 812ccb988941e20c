"""How much memory this process's machine, or its container, has."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_CONTAINERS = Path("/sys/fs/cgroup/memory.max")


def memory_bytes(limit_file: Path = _CONTAINERS) -> int:
    """All of it, in use or not: the machine's, or less where a container is given less."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # no container, or "max"
        return min(machine, int(limit_file.read_text(encoding="ascii")))
    return machine
