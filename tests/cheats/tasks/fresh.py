"""Every weight as it is at initialisation: ones, and zeros."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(columns))
        self.bias = nn.Parameter(torch.zeros(columns))
        self.alpha = nn.Parameter(torch.zeros(1))
        self.register_buffer("mean", torch.zeros(columns))

    def forward(self, x):
        return (x - self.mean) * self.scale + self.bias + self.alpha * x.abs()


def get_inputs():
    return [torch.randn(30, 40)]


def get_init_inputs():
    return [40]
