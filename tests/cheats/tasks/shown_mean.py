"""The mean of what a mask shows, or nothing."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, m):
        return (x * m).sum() / m.sum().clamp(min=1)


def get_inputs():
    return [torch.randn(32, 64), torch.rand(32, 64) < 0.5]


def get_init_inputs():
    return []
