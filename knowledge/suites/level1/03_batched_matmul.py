"""A product of two matrices for each of a batch."""

import torch
from torch import nn

SIZES = {"batch": 128, "m": 512, "k": 1024, "n": 2048}
batch, m, k, n = SIZES.values()


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.bmm(a, b)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch, m, k), torch.rand(batch, k, n)]


def get_init_inputs() -> list[object]:
    return []
