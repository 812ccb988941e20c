"""Product of two square matrices."""

import torch
from torch import nn

SIZES = {"n": 4096}
n = SIZES["n"]


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(n, n), torch.rand(n, n)]


def get_init_inputs() -> list[object]:
    return []
