"""OpenMP's threads on one processor each, while a clock runs. Standard library only: candidates' processes use it too.

The system wakes all threads of a stopped process at once, and can leave two of them on one processor for milliseconds
while another idles: half of the rounds of a kernel of 1.6 ms then took 2 to 4. A process that nobody stops keeps the
places that its threads found long ago; these are given to kernels and to PyTorch alike.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection, Sequence


class Team:
    """Where the threads of a team run. Made before a process's code is fixed: it holds a callback."""

    def __init__(self) -> None:
        self._callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._move)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._callback))  # fixed code cannot be freed, at a process's end
        self._openmp: ctypes.CDLL | None = None
        self._places: Sequence[Collection[int]] = ()

    def put(self, openmp: ctypes.CDLL, count: int, places: Sequence[Collection[int]]) -> None:
        """Have a team of `count` threads, the caller among them, each on the processors of its place, in turn."""
        self._openmp, self._places = openmp, places
        openmp.GOMP_parallel(self._callback, None, count, 0)

    def _move(self, _: object) -> None:
        """Of one of its threads; it can move itself alone."""
        if self._openmp is not None:
            os.sched_setaffinity(0, self._places[self._openmp.omp_get_thread_num() % len(self._places)])
