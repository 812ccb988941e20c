"""Gradients that go where each window of 2x2 has its maximum."""

import torch
from torch import nn
from torch.nn import functional

WORKLOADS = [{"channels": 64, "size": 28}, {"channels": 128, "size": 12}]


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.max_pool2d(x, 2)


def get_inputs(channels: int = 64, size: int = 28) -> list[torch.Tensor]:
    return [torch.randn(64, channels, size, size)]


def get_init_inputs() -> list[object]:
    return []


DIRECTION = "backward"
