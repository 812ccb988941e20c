"""Shapes and strides, in elements."""

from __future__ import annotations

from math import prod

from knowledge.playbook.expressions import UnwritableError

Shape = tuple[int, ...]


def packed_strides(shape: Shape) -> Shape:
    """Row-major strides of a dense tensor."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def broadcast_shape(shapes: tuple[Shape, ...]) -> Shape:
    """The shape that all of `shapes` broadcast to. Raises `UnwritableError` where there is none."""
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result = []
    for extents in zip(*padded, strict=True):
        wide = {extent for extent in extents if extent != 1}
        if len(wide) > 1:
            raise UnwritableError(f"shapes {shapes} that do not broadcast")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def resolve(shape: Shape, target: Shape) -> Shape:
    """A reshape's target without its -1."""
    if -1 not in target:
        return target
    known = prod(extent for extent in target if extent != -1)
    return tuple(prod(shape) // max(known, 1) if extent == -1 else extent for extent in target)
