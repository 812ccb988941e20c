"""What a square matrix of a file shows: a triangle, or symmetry.

That is no promise: timed values keep it, for they are like the file's; trials do where the reference takes no others.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

SPREAD = 997.0
"""Drawn values are small: times this their whole parts differ."""
CORNER = 64
"""A corner of so many rows says at once that a dense matrix is none of these, where the whole would take 0.1 s."""
ROUNDINGS, NARROW_ROUNDINGS = 64.0, 2.0
"""`a @ a.mT` is symmetric within so many roundings of its largest element: libraries sum in different orders. Types of
16 bits are rounded once, from a sum in float32."""


@dataclass(frozen=True)
class Structure:
    """What one tensor shows; most show nothing."""

    upper: bool = False
    lower: bool = False
    symmetric: bool = False
    indices: tuple[float, float] | None = None
    """The least and the largest of whole numbers that a forward takes for indices: a table may end there."""

    @classmethod
    def of(cls, given: torch.Tensor) -> Structure:
        """What holds for a tensor's last two axes. A matrix of zeros alone shows nothing."""
        if given.ndim < 2 or given.shape[-1] != given.shape[-2] or given.shape[-1] < 2:
            return cls()
        upper, lower = _is_upper(given), _is_upper(given.mT)
        if upper and lower and not given.any():
            return cls()
        return cls(upper, lower, _is_symmetric(given))

    @property
    def empty(self) -> bool:
        """Is nothing shown?"""
        return not (self.shaped or self.indices)

    @property
    def shaped(self) -> bool:
        """Is there a triangle, or symmetry?"""
        return self.upper or self.lower or self.symmetric

    @property
    def unshaped(self) -> Structure:
        """Without those."""
        return Structure(indices=self.indices)

    def keep(self, drawn: torch.Tensor) -> torch.Tensor:
        """Drawn values that show the same; the tensor itself where there is nothing."""
        if self.upper:
            drawn = drawn.triu()
        if self.lower:
            drawn = drawn.tril()
        if self.symmetric:
            drawn = drawn.triu() + drawn.triu(1).mT
        return drawn if self.indices is None else _folded(drawn, *self.indices)


def _folded(drawn: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """Whole numbers from low to high, by far digits of what was drawn."""
    return drawn.nan_to_num(0.0, 0.0, 0.0).abs().mul(SPREAD).floor().remainder(high - low + 1).add(low).clamp(low, high)


def _is_upper(given: torch.Tensor) -> bool:
    corner = min(CORNER, given.shape[-1] // 2)
    return not (given[..., -corner:, :corner].any() or given.tril(-1).any())


def _is_symmetric(given: torch.Tensor) -> bool:
    edge = min(CORNER, given.shape[-1])
    return _are_near(given[..., :edge, :], given[..., :, :edge].mT) and _are_near(given, given.mT)


def _are_near(left: torch.Tensor, right: torch.Tensor) -> bool:
    if not left.is_floating_point():
        return torch.equal(left, right)
    roundings = ROUNDINGS if left.dtype.itemsize >= 4 else NARROW_ROUNDINGS
    tolerance = roundings * torch.finfo(left.dtype).eps * float(left.abs().max())
    return torch.allclose(left, right, rtol=0.0, atol=tolerance)
