"""Leaky ReLU with a slope of 0.01."""

import torch
from torch import nn

SIZES = {"rows": 4096, "columns": 393216}
rows, columns = SIZES.values()


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.leaky_relu(x, negative_slope=0.01)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(rows, columns)]


def get_init_inputs() -> list[object]:
    return []
