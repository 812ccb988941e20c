"""A call like an earlier one, straight to the kernel: it asks only what a caller may change from call to call.

What is known of that kind of call is bound once, here, and not looked up again: a call has a few microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch._C._dynamo import guards

from .guards import make_guard
from .pages import LARGE, in_huge_pages
from .specs import ALIGNMENT, NUMBERS, Tensor, Workload

Straight = Callable[[Sequence[Any]], Any]
"""Called with a forward's values: the kernel's outputs, or None where this is another kind of call."""
Run = Callable[[Sequence[Any]], Any]
Entry = Callable[..., Any]

_WITHIN = ALIGNMENT - 1
_current_device: Callable[[], int] = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)


def make_straight(values: Sequence[Any], workload: Workload, run: Run) -> Straight | None:
    """`run` for calls like this one of values that fit the workload; None where PyTorch's guards cannot tell them."""
    guard = make_guard([values[k] for k, each in enumerate(workload.arguments) if isinstance(each, Tensor)])
    if guard is None:
        return None
    if not all(isinstance(each, Tensor) for each in workload.arguments):
        return _beside_numbers(guard, workload, run)

    def straight(values: Sequence[Any]) -> Any:
        if not guard(*values):
            return None
        for each in values:
            if each.data_ptr() & _WITHIN:
                return None
        return run(values)

    return straight


def runner(workload: Workload, entry: Entry, device: torch.device) -> Run:
    """Calls the kernel on values that fit: the outputs, a tuple where there are several."""
    here, index = _on_current_device(workload, entry, device), device.index
    if index is None:
        return here

    def run(values: Sequence[Any]) -> Any:
        if index == _current_device():
            return here(values)
        with torch.cuda.device(index):
            return here(values)

    return run


def ready(values: Sequence[Any], workload: Workload) -> bool:
    """Of what a guard does not see: where memory begins, and numbers."""
    return all(map(_ready, values, workload.arguments))


def _ready(value: Any, spec: Any) -> bool:
    if isinstance(spec, Tensor):
        return not value.data_ptr() & _WITHIN
    return type(value) in NUMBERS and (spec is None or value in spec.values)


def _beside_numbers(guard: Callable[..., bool], workload: Workload, run: Run) -> Straight:
    tensors = [k for k, each in enumerate(workload.arguments) if isinstance(each, Tensor)]

    def straight(values: Sequence[Any]) -> Any:
        if not guard(*[values[k] for k in tensors]) or not ready(values, workload):
            return None
        return run(values)

    return straight


def _on_current_device(workload: Workload, entry: Entry, device: torch.device) -> Run:
    layouts = [(_allocator(device, each), each.shape, each.strides, each.dtype) for each in workload.outputs]
    if len(layouts) > 1:

        def several(values: Sequence[Any]) -> Any:
            outputs = tuple([allocate(*layout) for allocate, *layout in layouts])
            entry(*values, *outputs)
            return outputs

        return several
    ((allocate, shape, strides, dtype),) = layouts

    def one(values: Sequence[Any]) -> Any:
        output = allocate(shape, strides, dtype)
        entry(*values, output)
        return output

    return one


def _allocator(device: torch.device, output: Tensor) -> Callable[..., torch.Tensor]:
    """Memory on the current device by shape, strides and type, past PyTorch's dispatcher where that can be."""
    direct: Any = getattr(guards, f"_empty_strided_{device.type}", None)
    allocate = direct or partial(_empty, device)
    return in_huge_pages(allocate) if device.type == "cpu" and output.nbytes >= LARGE else allocate


def _empty(device: torch.device, shape: Any, strides: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(shape, strides, dtype=dtype, device=device)
