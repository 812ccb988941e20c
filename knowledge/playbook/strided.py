"""The algebra of strided views: shapes and strides in, shape, strides and offset out. All in elements."""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import prod
from operator import mul
from typing import NamedTuple

Shape = tuple[int, ...]


class NotAView(Exception):  # noqa: N818 - a refusal that callers turn into their own error
    """The result cannot be addressed with strides over the same storage; `str()` says which view."""


class View(NamedTuple):
    """Shape and strides of a view, and how many elements its first one lies after the base's first."""

    shape: Shape
    strides: Shape
    offset: int = 0


def packed_strides(shape: Shape) -> Shape:
    """Row-major strides of a dense tensor."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def broadcast_shape(shapes: tuple[Shape, ...]) -> Shape:
    """The shape that all of `shapes` broadcast to."""
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result = []
    for extents in zip(*padded, strict=True):
        wide = {extent for extent in extents if extent != 1}
        if len(wide) > 1:
            raise NotAView(f"shapes {shapes} do not broadcast")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def expand(shape: Shape, strides: Shape, target: Shape) -> View:
    """Broadcast to `target`; -1 there keeps the extent."""
    lead = len(target) - len(shape)
    if lead < 0:
        raise NotAView(f"{shape} does not broadcast to {target}")
    new_shape, new_strides = [], []
    for dim, want in enumerate(target):
        have, step = (shape[dim - lead], strides[dim - lead]) if dim >= lead else (1, 0)
        extent = have if want == -1 else want
        if have not in (1, extent):
            raise NotAView(f"{shape} does not broadcast to {target}")
        new_shape.append(extent)
        new_strides.append(step if have == extent and have != 1 else 0)
    return View(tuple(new_shape), tuple(new_strides))


def permute(shape: Shape, strides: Shape, order: Shape) -> View:
    """Dimensions in another order."""
    dims = [dim % len(shape) for dim in order]
    return View(tuple(shape[dim] for dim in dims), tuple(strides[dim] for dim in dims))


def slice_dim(shape: Shape, strides: Shape, dim: int, start: int, stop: int, step: int) -> View:
    """`[start:stop:step]` of one dimension, with Python's clamping of the bounds."""
    if step == 1 and 0 <= start <= stop <= shape[dim]:
        extent = stop - start
    else:
        start, stop, step = slice(start, stop, step).indices(shape[dim])
        extent = len(range(start, stop, step))
    new_shape = (*shape[:dim], extent, *shape[dim + 1 :])
    new_strides = (*strides[:dim], strides[dim] * step, *strides[dim + 1 :])
    return View(new_shape, new_strides, start * strides[dim])


def select(shape: Shape, strides: Shape, dim: int, index: int) -> View:
    """One index of one dimension, which disappears."""
    position = index % shape[dim]
    return View(shape[:dim] + shape[dim + 1 :], strides[:dim] + strides[dim + 1 :], position * strides[dim])


def flip(shape: Shape, strides: Shape, dim: int) -> View:
    """One dimension backwards."""
    if dim >= len(shape):
        return View(shape, strides)
    turned = (*strides[:dim], -strides[dim], *strides[dim + 1 :])
    return View(shape, turned, max(shape[dim] - 1, 0) * strides[dim])


def unfold(shape: Shape, strides: Shape, dim: int, size: int, step: int) -> View:
    """Windows of one dimension, one every `step` elements; a window's elements are a new last dimension."""
    count = (shape[dim] - size) // step + 1
    windows = (*shape[:dim], count, *shape[dim + 1 :], size)
    return View(windows, (*strides[:dim], strides[dim] * step, *strides[dim + 1 :], strides[dim]))


def reshape(shape: Shape, strides: Shape, target: Shape) -> View:
    """The row-major reshape to `target` (one -1 allowed), where strides can express it without a copy."""
    target = resolve(shape, target)
    if 0 in target:
        return View(target, packed_strides(target))
    runs = merge_runs(shape, strides)
    result: list[int] = []
    remaining, step = 1, 0
    for want in reversed(target):
        if want == 1:
            result.append(0)
            continue
        if remaining == 1:
            remaining, step = runs.pop() if runs else (1, 0)
        if remaining % want:
            raise NotAView(f"a reshape of {shape} to {target} that would need a copy")
        result.append(step)
        remaining, step = remaining // want, step * want
    return View(target, tuple(reversed(result)))


def merge_runs(shape: Shape, strides: Shape) -> list[tuple[int, int]]:
    """Dimensions of extent above 1, neighbours that one stride can walk merged: (extent, stride), outermost first."""
    runs: list[tuple[int, int]] = []
    for extent, step in zip(shape, strides, strict=True):
        if extent == 1:
            continue
        if runs and runs[-1][1] == step * extent:
            runs[-1] = (runs[-1][0] * extent, step)
        else:
            runs.append((extent, step))
    return runs


def resolve(shape: Shape, target: Shape) -> Shape:
    """A reshape's target without its -1."""
    if -1 not in target:
        return target
    known = prod(extent for extent in target if extent != -1)
    return tuple(prod(shape) // max(known, 1) if extent == -1 else extent for extent in target)


def common_shape(one: Shape, other: Shape) -> Shape:
    """The coarsest shape whose dimensions merge to either. Raises `NotAView` where there is none."""
    cuts = sorted({*accumulate(one, mul), *accumulate(other, mul), 1})
    if 0 in cuts or any(high % low for low, high in pairwise(cuts)):
        raise NotAView(f"a reshape of {one} to {other} that would need a copy")
    return tuple(high // low for low, high in pairwise(cuts))
