"""A weight and a number beside the input."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(columns))

    def forward(self, x, s: float):
        return x * self.weight * s


def get_inputs():
    return [torch.randn(30, 40), 2.0]


def get_init_inputs():
    return [40]
