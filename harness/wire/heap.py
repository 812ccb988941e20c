"""Malloc as all sides are timed with it on a processor: what is freed stays at hand. Standard library only."""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # malloc.h


def keep_what_is_freed() -> None:
    """From here on this process's heap grows and never shrinks, as a caching allocator's memory would.

    Otherwise every large block is a mapping of its own, with a fault for each page of each call.
    """
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_MMAP_MAX, 0)
    libc.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
