"""A product whose operands are both stored transposed."""

import torch
from torch import nn

SIZES = {"m": 2048, "k": 8192, "n": 4096}
m, k, n = SIZES.values()


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a.T, b.T)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(k, m), torch.rand(n, k)]


def get_init_inputs() -> list[object]:
    return []
