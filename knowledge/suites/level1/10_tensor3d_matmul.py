"""A batch of matrices times one matrix that they share."""

import torch
from torch import nn

SIZES = {"batch": 16, "m": 1024, "k": 2048, "n": 768}
batch, m, k, n = SIZES.values()


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch, m, k), torch.rand(k, n)]


def get_init_inputs() -> list[object]:
    return []
