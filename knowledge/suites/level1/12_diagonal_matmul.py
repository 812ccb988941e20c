"""A diagonal matrix, given by its diagonal, times a matrix: each row is scaled."""

import torch
from torch import nn

SIZES = {"m": 4096, "n": 4096}
m, n = SIZES.values()


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a.unsqueeze(1) * b


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(m), torch.rand(m, n)]


def get_init_inputs() -> list[object]:
    return []
