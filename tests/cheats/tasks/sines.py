"""A chain of functions beside a number."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, s: float):
        for _ in range(12):
            x = torch.sin(x)
        return x * s


def get_inputs():
    return [torch.randn(100, 120), 2.0]


def get_init_inputs():
    return []
