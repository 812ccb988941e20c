"""A small product over a very long inner side: few output tiles, much to sum for each."""

import torch
from torch import nn

SIZES = {"m": 256, "k": 524288, "n": 256}
m, k, n = SIZES.values()


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(m, k), torch.rand(k, n)]


def get_init_inputs() -> list[object]:
    return []
