"""The processor as a device: sealed memory files, malloc's settings, the cache."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import torch

from harness.nouns.candidate import TargetName
from harness.nouns.verdict import Precision
from harness.trusted.device import Segment
from harness.wire.heap import keep_what_is_freed
from harness.wire.team import Team

# linux/fcntl.h; Python's fcntl module names only the older ones.
F_ADD_SEALS = 1033
F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE = 1, 2, 4, 16


class HostDevice:
    """`cache_bytes` should exceed the last-level cache: that much is read to empty it."""

    kind: TargetName = "cpu"
    place = torch.device("cpu")
    burst_s = 0.004  # the message to the runner takes about 0.05 ms
    settle_s = 0.002  # OpenMP threads spin for about a millisecond after a parallel region
    pings = 0
    messages = 8
    known_work = 0
    usual_cost = 0.0  # other programs disturb them
    warm_s = 0.0
    seals = True
    queues = False
    keeps_results = False
    verified_slots = 256

    def __init__(self, cache_bytes: int) -> None:
        self._cache_bytes = cache_bytes
        self._team = Team()

    def prepare(self, precision: Precision) -> None:
        """Have malloc keep what is freed, as a caching allocator would, and as the candidate's does.

        Otherwise every eager call maps fresh pages for its results and pays a fault for each, while the candidate
        writes into outputs that exist: the difference would be the allocator's, and would flatter the candidate.
        """
        keep_what_is_freed()

    def slots(self, wanted: int, each: int, allowed: int) -> int:
        """As many as fit."""
        return max(1, min(wanted, allowed // each))

    def segment(self, name: str, size: int, *, sealed: bool) -> Segment:
        """A memfd mapped by us, then sealed: with FUTURE_WRITE only this mapping can ever write to it."""
        descriptor = os.memfd_create(name, os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        os.ftruncate(descriptor, size)
        mapped = mmap.mmap(descriptor, size)
        extra = F_SEAL_FUTURE_WRITE if sealed else 0
        fcntl.fcntl(descriptor, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | extra)
        return Segment(descriptor, torch.frombuffer(mapped, dtype=torch.uint8))

    def before_timing(self) -> None:
        """From here on eager's results lie on pages of the same size as the shared memory, where the candidate's lie.

        The oracles before were faster for huge pages (see GLIBC_TUNABLES in the warm parent's environment).
        """
        pr_set_thp_disable = 41  # linux/prctl.h
        libc = ctypes.CDLL(None)
        libc.prctl(pr_set_thp_disable, 1, 0, 0, 0)
        libc.malloc_trim(0)

    @cached_property
    def _evictor(self) -> torch.Tensor:
        return torch.ones(self._cache_bytes // 4, dtype=torch.int32)

    @contextmanager
    def team_in_place(self) -> Iterator[None]:
        """Threads of the pool, the caller among them, on one processor each. What is started later has all again."""
        if (openmp := self._openmp) is None:
            yield
            return
        every, count = sorted(os.sched_getaffinity(0)), torch.get_num_threads()
        self._team.put(openmp, count, [{each} for each in every])
        try:
            yield
        finally:
            self._team.put(openmp, count, [every])

    @cached_property
    def _openmp(self) -> ctypes.CDLL | None:
        """The runtime that PyTorch is linked with; None where that has not GCC's names."""
        linked = ctypes.CDLL(torch._C.__file__)
        return linked if hasattr(linked, "GOMP_parallel") else None

    def empty_caches(self) -> None:
        """Read the evictor once. For the largest of all, which is found as fast as memory is read."""
        self._evictor.max()

    def conditions(self) -> None:
        """A processor's clocks move by the millisecond: one reading would say nothing."""

    def finish(self) -> None:
        """Nothing to wait for: calls return when they are done."""
