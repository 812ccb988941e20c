"""A gate over a shifted input: tanh(x) * silu(x + bias)."""

import torch
from torch import nn


class Model(nn.Module):
    """The bias is one number a column."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.linspace(-1, 1, columns))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shifted = x + self.bias
        return torch.tanh(x) * (shifted * torch.sigmoid(shifted))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(256, 1000)]


def get_init_inputs() -> list[int]:
    return [1000]
