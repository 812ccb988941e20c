"""A residual branch that begins as good as absent, as blocks with a scale a layer have it."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(40, 40)
        self.scale = nn.Parameter(torch.full((40,), 1e-6))

    def forward(self, x):
        return x + self.scale * torch.tanh(self.mix(x))


def get_inputs():
    return [torch.randn(30, 40)]


def get_init_inputs():
    return []
