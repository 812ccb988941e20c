"""Sizes between those that a kernel was judged at: a call's own workload by the rule that the judged ones follow."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import torch

from .specs import Argument, Tensor, Unfit, Workload


class Extent(NamedTuple):
    """`times` the product of the sizes of these numbers, and `plus` more."""

    times: int
    of: tuple[int, ...]
    plus: int


class Size(NamedTuple):
    """An extent of an input by its name and axis, and the least and largest one that the judge tried."""

    name: str
    axis: int
    low: int
    high: int


class Sizes(NamedTuple):
    """`workload` has an `Extent` in the place of each number that follows from `sizes`."""

    sizes: tuple[Size, ...]
    workload: Workload

    def of(self, values: Sequence[Any]) -> Workload | Unfit:
        """The workload of a call's sizes, or which one lies beyond what the judge tried."""
        given = {spec.name: value for spec, value in zip(self.workload.arguments, values, strict=True) if spec}
        found = []
        for size in self.sizes:
            value = given[size.name]
            if not isinstance(value, torch.Tensor) or value.dim() <= size.axis:
                return Unfit("shape", f"{size.name} is no tensor with an axis {size.axis}")
            extent = value.shape[size.axis]
            if not size.low <= extent <= size.high:
                said = f"{size.name} has {extent} elements along axis {size.axis}; the kernel was made for {size.low}"
                return Unfit("shape", f"{said} to {size.high}")
            found.append(int(extent))
        arguments = tuple(_at(each, found) for each in self.workload.arguments)
        return Workload(arguments, tuple(_tensor_at(each, found) for each in self.workload.outputs))


def _at(argument: Argument, sizes: Sequence[int]) -> Argument:
    return _tensor_at(argument, sizes) if isinstance(argument, Tensor) else argument


def _tensor_at(tensor: Tensor, sizes: Sequence[int]) -> Tensor:
    shape = tuple(_number_at(each, sizes) for each in tensor.shape)
    view = tensor.view
    if view is not None:
        strides = tuple(_number_at(each, sizes) for each in view.strides)
        view = view._replace(strides=strides, offset=_number_at(view.offset, sizes))
    return tensor._replace(shape=shape, strides=tuple(_number_at(each, sizes) for each in tensor.strides), view=view)


def _number_at(number: Any, sizes: Sequence[int]) -> int:
    if not isinstance(number, Extent):
        return int(number)
    return number.times * prod(sizes[each] for each in number.of) + number.plus
