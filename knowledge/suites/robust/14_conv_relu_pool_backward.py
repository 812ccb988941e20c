"""Gradients through maxima of windows, a cut at zero and a convolution of 3x3."""

import torch
from torch import nn
from torch.nn import functional

WORKLOADS = [
    {"size": size, "outputs": outputs, "channels": channels}
    for channels in (1, 32)
    for outputs in (32, 64)
    for size in (28, 13)
]


class Model(nn.Module):
    def __init__(self, channels: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, outputs, 3)
        nn.init.kaiming_normal_(self.conv.weight, nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.max_pool2d(torch.relu(self.conv(x)), 2)


def get_inputs(channels: int = 1, size: int = 28) -> list[torch.Tensor]:
    return [torch.randn(64, channels, size, size)]


def get_init_inputs(channels: int = 1, outputs: int = 32) -> list[object]:
    return [channels, outputs]


DIRECTION = "backward"
