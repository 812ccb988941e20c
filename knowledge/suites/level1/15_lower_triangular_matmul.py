"""Product of two lower triangular matrices: a sixth of the dense work is needed."""

import torch
from torch import nn

SIZES = {"n": 4096}
n = SIZES["n"]


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.tril(torch.matmul(a, b))


def get_inputs() -> list[torch.Tensor]:
    return [torch.tril(torch.rand(n, n)), torch.tril(torch.rand(n, n))]


def get_init_inputs() -> list[object]:
    return []
