"""The loop nest that walks several strided tensors together, with as few dimensions as they allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod


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
