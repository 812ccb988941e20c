"""Product of two square matrices, both row-major."""

import torch
from torch import nn

SIZES = {"m": 4096, "n": 4096, "k": 4096}
m, n, k = SIZES["m"], SIZES["n"], SIZES["k"]


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(m, k, dtype=torch.bfloat16), torch.randn(k, n, dtype=torch.bfloat16)]


def get_init_inputs() -> list[object]:
    return []
