"""What a call of a model needs of memory: by the sizes of its tensors while they live, or as measured."""

from __future__ import annotations

import gc
import math
import os
import time
import weakref
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from harness.nouns.devices import on_gpu
from harness.trusted.device import Device

_MEMORY = "[memory]"


class FollowedEnough(BaseException):
    """The processor's time for following a forward is over."""


class Footprint(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Around a forward: `peak_bytes` is the most that tensors made within it took at one time.

    After `limit_s` of this thread's processor time it raises `FollowedEnough`: without memory a recurrent layer is
    computed step by step in Python, and may take longer than with it.
    """

    def __init__(self, limit_s: float = math.inf) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak_bytes = 0
        self._until = time.thread_time() + limit_s
        self._held = 0
        self._seen: dict[int, weakref.finalize[Any, Any]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Called by torch for each operation."""
        if time.thread_time() > self._until:
            raise FollowedEnough
        given = {_place(each) for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)}
        result = func(*args, **(kwargs or {}))
        for each in tree_leaves(result):
            if isinstance(each, torch.Tensor) and _place(each) not in given:
                self._take(each)
        return result

    def _take(self, made: torch.Tensor) -> None:
        place = _place(made)
        if place not in self._seen:
            size = made.untyped_storage().nbytes()
            self._held += size
            self.peak_bytes = max(self.peak_bytes, self._held)
            self._seen[place] = weakref.finalize(made.untyped_storage(), self._give_back, place, size)

    def _give_back(self, place: int, size: int) -> None:
        self._held -= size
        self._seen.pop(place, None)


def peak_bytes(device: Device, call: Callable[[], object]) -> int:
    """The most that PyTorch handed out at one time during a call, beyond what was held before.

    What kernels ask of the system themselves is in it on a GPU alone.
    """
    gc.collect()
    return _of_gpu(device, call) if device.queues else _of_processor(call)


def _of_gpu(device: Device, call: Callable[[], object]) -> int:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    device.finish()
    return int(torch.cuda.max_memory_allocated()) - before


def _of_processor(call: Callable[[], object]) -> int:
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    recorded = profiler.profiler.kineto_results.events()
    return most(event.nbytes() for event in recorded if event.name() == _MEMORY)


def most(changes: Iterable[int]) -> int:
    """The highest sum of what was taken, less what was given back, in its order."""
    return max(0, *accumulate(changes, initial=0), 0)


def bytes_of(tensors: list[torch.Tensor]) -> int:
    """Of the memory under these tensors, each once."""
    return sum({_place(each): each.untyped_storage().nbytes() for each in tensors}.values())


def free_bytes(place: torch.device) -> int:
    """Memory that may be had right now where tensors of this device lie."""
    return int(torch.cuda.mem_get_info()[0]) if on_gpu(place.type) else available_bytes()


def available_bytes() -> int:
    """Memory of this machine that may be had right now; none is told where /proc does not."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123 (a locked child has few ways to read)
            found = next(line for line in lines if line.startswith("MemAvailable:"))
        return int(found.split()[1]) << 10
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _place(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
