"""Results that are small beside others of their output, of a function of each element or a share of a whole.

By the scale of the output they are nothing; a caller takes their logarithm, or multiplies them by each other. So each
is held to PyTorch's own error relative to elements of about its size.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from harness.checks.errors import MULTIPLE, UNDEFINED, Expected, with_wrong
from harness.nouns.verdict import OutputError

LOOKED_AT = 1 << 20
OCTAVES = 8
"""Elements within so many octaves, or beside those, have one yardstick: PyTorch's largest relative error among them."""
UNITS, SHORT_UNITS = 64.0, 32.0
"""Units of the type's last place that another formula may be off by beside that, and of a type of 16 bits: an exponent
that is rounded to bfloat16 moves a share of e**-10 by 4 %."""
SPREAD = 8.0
"""Times what a unit of each rounding moves an element by: where terms cancel nobody has more."""


def wrong_small_ones(
    got: torch.Tensor, expected: Expected, spread: Callable[[], torch.Tensor]
) -> tuple[torch.Tensor, float]:
    """Flat places of elements that are wrong by their own size, and how far off the worst is, as a share of itself.

    Elements below the type's smallest normal number are not looked at. `spread`, asked where some seem wrong, is what
    rounding may move each element by.
    """
    facts = torch.finfo(expected.reference.dtype)
    step = max(1, got.numel() // LOOKED_AT) | 1
    exact, own, theirs = (_flat(each, step) for each in (expected.oracle, expected.reference, got))
    size = exact.abs()
    told = (size >= facts.smallest_normal) & (size <= facts.max) & own.isfinite() & theirs.isfinite()
    size = torch.where(told, size, 1.0)
    own, theirs = (torch.where(told, (each - exact).abs() / size, 0.0) for each in (own, theirs))
    usual = _largest_of_octaves(size, own)
    units = UNITS if facts.bits > 16 else SHORT_UNITS
    allowed = expected.tolerance * (MULTIPLE * usual + units * facts.eps)
    wrong = (theirs > allowed) & (usual < UNDEFINED)
    if wrong.any():
        allowed += expected.tolerance * SPREAD * _flat(spread(), step) / size
        wrong &= ~(theirs <= allowed)
    return wrong.nonzero().squeeze(1) * step, float(torch.where(wrong, theirs, 0.0).max())


def with_small_ones(
    error: OutputError, places: torch.Tensor, off: float, got: torch.Tensor, expected: Expected
) -> OutputError:
    """The error with elements, by flat places, that are wrong by their own size: `off` by so much at worst."""
    wrong = torch.zeros(got.numel(), dtype=torch.bool, device=got.device)
    wrong[places] = True
    found = with_wrong(error, wrong.view(got.shape), got, expected)
    return found.model_copy(update={"pattern": f"off by {off:.3g} of their own size, {found.pattern}"})


def _flat(tensor: torch.Tensor, step: int) -> torch.Tensor:
    return tensor.reshape(-1)[::step].double()


def _largest_of_octaves(size: torch.Tensor, error: torch.Tensor) -> torch.Tensor:
    """For each element the largest error among those of about its size."""
    place = torch.frexp(size).exponent.long().add_(1100).div_(OCTAVES, rounding_mode="floor")
    largest = error.new_zeros(2 * 1100 // OCTAVES + 2).scatter_reduce_(0, place, error, "amax")
    beside = torch.nn.functional.max_pool1d(largest[None, None], 3, 1, 1)[0, 0]
    return beside[place]
