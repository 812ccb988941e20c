"""Tensors of 8-bit floats, for which PyTorch has copies and few other operations: float32 stands in for them.

A result in such a type is judged by its codes. It is the number that PyTorch has or the oracle, or the one beside it
where float error decides which: an error of a hundredth of a step is no less wrong than one of a half.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

FLOAT8 = frozenset({torch.float8_e4m3fn, torch.float8_e5m2})


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers in float32 where they are 8-bit floats; else the tensor itself."""
    return tensor.float() if tensor.dtype in FLOAT8 else tensor


@contextmanager
def in_float32(view: torch.Tensor) -> Iterator[torch.Tensor]:
    """What stands in for a tensor while it is written; copied into it at the end."""
    wide = widened(view)
    yield wide
    if wide is not view:
        view.copy_(wide)


def saturates() -> bool:
    """Whether this PyTorch makes the largest number of what is too large for float8_e4m3fn, and not NaN."""
    return not bool(torch.tensor(1e9).to(torch.float8_e4m3fn).isnan())
