"""Whether results are numbers, and whether they hold a kernel to anything: a draw that does not is no trial."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from harness.checks.float8 import widened

LOOKED_AT = 1 << 14
"""Elements of an output's sample, from all over it."""
MOST = 0.5
"""A larger share than this of what is not finite is most of an output."""


def emptiness(outputs: Sequence[torch.Tensor]) -> str:
    """Why none of a reference's outputs says anything of a kernel, as a phrase; empty where one of them does.

    They are not finite in most places, or finite and the same everywhere. Of a single number only the first counts.
    """
    reasons = [_emptiness(_sample(output)) for output in outputs]
    return reasons[0] if all(reasons) else ""


def _sample(output: torch.Tensor) -> torch.Tensor:
    flat = output.reshape(-1)
    return widened(flat[:: max(1, flat.numel() // LOOKED_AT)])


def _emptiness(sample: torch.Tensor) -> str:
    finite = sample[torch.isfinite(sample)]
    if finite.numel() < MOST * sample.numel():
        return "PyTorch's outputs are not finite in most places"
    if sample.numel() > 1 and bool((finite == finite[0]).all()):
        return f"PyTorch's outputs are {float(finite[0]):.3g} everywhere"
    return ""


def all_finite(results: Sequence[torch.Tensor]) -> bool:
    """Whether every element of these is a finite number."""
    return all(map(_is_finite, results))


def _is_finite(result: torch.Tensor) -> bool:
    """By both ends, of which one is NaN where any element is: one pass that writes nothing."""
    if not result.is_floating_point() or not result.numel():
        return True
    return all(math.isfinite(end) for end in widened(result).aminmax())
