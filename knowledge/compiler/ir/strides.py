"""Shapes and strides, in elements, and the loop nest that walks several strided tensors together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from knowledge.compiler.ir.expressions import UnwritableError


@dataclass(frozen=True)
class Space:
    """Extents, the fastest first, and for each operand one stride an extent. There is at least one extent."""

    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def columns(self) -> int:
        """Elements along the fastest dimension."""
        return self.extents[0]

    @property
    def rows(self) -> int:
        """Steps of all other dimensions together."""
        return prod(self.extents[1:])


def collapse(shape: tuple[int, ...], operands: Sequence[tuple[int, ...]], leading: int = 0) -> Space:
    """Sort dimensions by the strides of operand number `leading`, the smallest first; then merge what all can merge."""
    dims = [dim for dim, extent in enumerate(shape) if extent != 1]
    dims.sort(key=lambda dim: (operands[leading][dim], -dim))
    extents: list[int] = []
    strides: list[list[int]] = [[] for _ in operands]
    for dim in dims:
        steps = [operand[dim] for operand in operands]
        if extents and all(step == mine[-1] * extents[-1] for step, mine in zip(steps, strides, strict=True)):
            extents[-1] *= shape[dim]
            continue
        extents.append(shape[dim])
        for mine, step in zip(strides, steps, strict=True):
            mine.append(step)
    if not extents:
        return Space((1,), tuple((1,) for _ in operands))
    return Space(tuple(extents), tuple(tuple(mine) for mine in strides))


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
