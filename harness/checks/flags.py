"""Bools by their bytes: a byte other than 0 and 1 compares like True, and computes like no bool."""

from __future__ import annotations

import torch


def no_flags(result: torch.Tensor) -> torch.Tensor:
    """Which elements of a bool tensor hold other bytes than 0 and 1; none of a tensor of another type."""
    if result.dtype != torch.bool:
        return torch.zeros_like(result, dtype=torch.bool)
    return result.view(torch.uint8) > 1
