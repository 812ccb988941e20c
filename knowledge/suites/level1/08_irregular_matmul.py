"""A product whose sides are all odd: no tile fits, no row is aligned."""

import torch
from torch import nn

SIZES = {"m": 8205, "k": 2949, "n": 5921}
m, k, n = SIZES.values()


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(m, k), torch.rand(k, n)]


def get_init_inputs() -> list[object]:
    return []
