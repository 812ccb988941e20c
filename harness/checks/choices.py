"""Indices that an operation chose: among equals any choice is right, as long as what it points at is.

topk, sort, kthvalue, median and their like do not say which of several equal elements they take. So an index is held to
the value that it gathers, and a row of a sort, or of the k largest, to naming no element twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Choice:
    """Indices of `shape` into `operand` (float64 or integers) along `dim`, which the shape may lack.

    `allowed` is how far off (scaled, `scale` being that of all elements) rounding may have had the operand; 0 where it
    is no result of anything. `distinct`: no element is named twice along `dim`.
    """

    operand: torch.Tensor
    dim: int
    shape: tuple[int, ...]
    distinct: bool
    allowed: float = 0.0
    scale: float = 1.0

    @property
    def fits(self) -> bool:
        """Whether the indices lie beside the operand's elements, one to one along all other axes."""
        others = [extent for axis, extent in enumerate(self.operand.shape) if axis != self.dim]
        shape = [*self.shape]
        if len(shape) == self.operand.ndim:
            del shape[self.dim]
        return shape == others

    def wrong(self, got: torch.Tensor, *right: torch.Tensor) -> torch.Tensor:
        """Which of these indices, or whole numbers as floats, are wrong, in their own shape; `right` are right."""
        index, *known = (self._along(each.reshape(self.shape)) for each in (got, *right))
        chosen = torch.where((index >= 0) & (index < self.operand.shape[self.dim]), index, 0).long()
        found, *wanted = (self.operand.gather(self.dim, each.long()) for each in (chosen, *known))
        alike = torch.stack([self._alike(found, value) for value in wanted]).any(0)
        alike &= chosen == index  # a NaN, a number with a fraction, or one out of bounds is none
        if self.distinct:
            alike &= ~repeated(chosen, self.dim)
        return ~alike.reshape(got.shape)

    def _alike(self, found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        same = (found == wanted) | (found.isnan() & wanted.isnan())
        if not self.allowed:
            return same
        return same | ((found - wanted).abs() <= 2 * self.allowed * (wanted.abs() + self.scale))

    def _along(self, index: torch.Tensor) -> torch.Tensor:
        """The indices with an extent along `dim`."""
        return index if index.ndim == self.operand.ndim else index.unsqueeze(self.dim)


def repeated(chosen: torch.Tensor, dim: int) -> torch.Tensor:
    """Which of the indices stand in their row before already."""
    ordered, places = chosen.sort(dim=dim, stable=True)
    count = ordered.shape[dim] - 1
    again = torch.zeros_like(ordered, dtype=torch.bool)
    again.narrow(dim, 1, count).copy_(ordered.narrow(dim, 1, count) == ordered.narrow(dim, 0, count))
    return torch.zeros_like(again).scatter_(dim, places, again)


@dataclass(frozen=True)
class Further:
    """What else is right about an output: any indices that `choice` accepts, and what `others` say.

    Those are the oracle's with each rounding on the way, to a whole number for instance, taken to the other side where
    float error may have done that. `explained`, asked where they do not tell, are the oracle's with each of those taken
    as PyTorch has, and as the candidate has.
    """

    choice: Choice | None = None
    others: tuple[torch.Tensor, ...] = ()
    explained: Callable[[], tuple[torch.Tensor, ...]] | None = None
