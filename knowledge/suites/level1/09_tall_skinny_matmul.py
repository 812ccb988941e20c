"""A tall matrix times a flat one: the output is a thousand times the inputs."""

import torch
from torch import nn

SIZES = {"m": 32768, "k": 32}
m, k = SIZES.values()


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(m, k), torch.rand(k, m)]


def get_init_inputs() -> list[object]:
    return []
