"""A large product over a short inner side: bound by writing the output."""

import torch
from torch import nn

SIZES = {"m": 32768, "k": 64, "n": 32768}
m, k, n = SIZES.values()


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(m, k), torch.rand(k, n)]


def get_init_inputs() -> list[object]:
    return []
