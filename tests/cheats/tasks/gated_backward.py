"""The gradients of rows that are scaled, shifted and cut off at zero; those of both weights are sums over rows."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(columns))
        self.shift = nn.Parameter(torch.randn(columns))

    def forward(self, x):
        return torch.relu(x * self.scale + self.shift)


def get_inputs():
    return [torch.randn(64, 96)]


def get_init_inputs():
    return [96]


DIRECTION = "backward"
