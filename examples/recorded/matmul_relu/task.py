"""A product of odd extents, with a rectifier behind it."""

import torch
from torch import nn


class Model(nn.Module):
    """relu(A @ B)."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.relu(a @ b)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(253, 301), torch.randn(301, 190)]


def get_init_inputs() -> list[int]:
    return []
