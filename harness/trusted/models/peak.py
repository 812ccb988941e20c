"""The most memory that PyTorch had handed out at one time while something was done, on a GPU and on a processor."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from itertools import accumulate

import torch
from torch.profiler import ProfilerActivity, profile

from harness.trusted.device import Device

_MEMORY = "[memory]"


def peak_bytes(device: Device, call: Callable[[], object]) -> int:
    """Beyond what was held before. What kernels ask of the system themselves is in it on a GPU alone."""
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
