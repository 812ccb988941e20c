"""A matrix times a number that the caller passes."""

import torch
from torch import nn

SIZES = {"m": 65536, "n": 16384}
m, n = SIZES.values()


class Model(nn.Module):
    def forward(self, a: torch.Tensor, s: float) -> torch.Tensor:
        return a * s


def get_inputs() -> list[torch.Tensor | float]:
    return [torch.rand(m, n), 3.14]


def get_init_inputs() -> list[object]:
    return []
