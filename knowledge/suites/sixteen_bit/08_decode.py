"""A linear layer on one token each of sixteen sequences."""

import torch
from torch import nn
from torch.nn import functional

SIZES = {"m": 16, "n": 4096, "k": 4096}
m, n, k = SIZES["m"], SIZES["n"], SIZES["k"]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n, k, dtype=torch.bfloat16) / k**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self.weight)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(m, k, dtype=torch.bfloat16)]


def get_init_inputs() -> list[object]:
    return []
