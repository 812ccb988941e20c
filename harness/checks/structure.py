"""What a file promises of a square matrix by its values: a triangle, or symmetry. Drawn values keep it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

SPREAD = 997.0
"""Drawn values are small: times this their whole parts differ."""
CORNER = 64
"""A corner of so many rows says at once that a dense matrix is none of these, where the whole would take 0.1 s."""


@dataclass(frozen=True)
class Structure:
    """The promises of one tensor; of most there are none."""

    upper: bool = False
    lower: bool = False
    symmetric: bool = False
    indices: tuple[float, float] | None = None
    """The least and the largest of whole numbers that a forward takes for indices: a table may end there."""

    @classmethod
    def of(cls, given: torch.Tensor) -> Structure:
        """What holds for a tensor's last two axes. A matrix of zeros alone promises nothing."""
        if given.ndim < 2 or given.shape[-1] != given.shape[-2] or given.shape[-1] < 2:
            return cls()
        upper, lower = _is_upper(given), _is_upper(given.mT)
        if upper and lower and not given.any():
            return cls()
        return cls(upper, lower, _is_symmetric(given))

    @property
    def empty(self) -> bool:
        """Is nothing promised?"""
        return not (self.upper or self.lower or self.symmetric or self.indices)

    def keep(self, drawn: torch.Tensor) -> torch.Tensor:
        """Drawn values with the promises kept; the tensor itself where there are none."""
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
    return torch.equal(given[..., :edge, :], given[..., :, :edge].mT) and torch.equal(given, given.mT)
