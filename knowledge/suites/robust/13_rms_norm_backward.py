"""Gradients of rows divided by their root mean square, and of the weight."""

import torch
from torch import nn

WORKLOADS = [
    {"batch": batch, "features": features} for batch, features in ((16, 4096), (16, 2048), (64, 4096), (64, 2048))
]


class Model(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-8) * self.weight


def get_inputs(batch: int = 16, features: int = 4096) -> list[torch.Tensor]:
    return [torch.randn(batch, 1024, features)]


def get_init_inputs(features: int = 4096) -> list[object]:
    return [features]


DIRECTION = "backward"
