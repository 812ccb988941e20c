"""A wide matrix times a column: bound by reading the matrix once."""

import torch
from torch import nn

SIZES = {"m": 2048, "k": 1048576}
m, k = SIZES.values()


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(m, k), torch.rand(k, 1)]


def get_init_inputs() -> list[object]:
    return []
