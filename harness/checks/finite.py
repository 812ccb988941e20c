"""Whether results are numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch


def all_finite(results: Sequence[torch.Tensor]) -> bool:
    """Whether every element of these is a finite number."""
    return all(map(_is_finite, results))


def _is_finite(result: torch.Tensor) -> bool:
    """By both ends, of which one is NaN where any element is: one pass that writes nothing."""
    if not result.is_floating_point() or not result.numel():
        return True
    return all(math.isfinite(end) for end in result.aminmax())
