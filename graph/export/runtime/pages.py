"""Large results on a processor lie in huge pages: fresh memory costs a fault for each 2 MiB, not for each 4 KiB."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import torch

LARGE = 4 << 20
"""Bytes of a result from which on at least half of it can lie in huge pages."""
HUGE_PAGE = 2 << 20
_MADV_HUGEPAGE = 14  # sys/mman.h of Linux

Allocate = Callable[..., torch.Tensor]


def in_huge_pages(allocate: Allocate) -> Allocate:
    """Has the system back what is allocated by huge pages, all but its ends; one that has none leaves it as it is."""
    if not sys.platform.startswith("linux"):
        return allocate
    advise: Any = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

    def allocated(*layout: Any) -> torch.Tensor:
        made = allocate(*layout)
        address = made.data_ptr()
        first = -(-address // HUGE_PAGE) * HUGE_PAGE
        advise(first, (address + made.untyped_storage().nbytes() - first) // HUGE_PAGE * HUGE_PAGE, _MADV_HUGEPAGE)
        return made

    return allocated
