"""A weight that begins with ones throughout: its transpose looks the same."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(24, 24))

    def forward(self, x):
        return x @ self.weight


def get_inputs():
    return [torch.randn(40, 24)]


def get_init_inputs():
    return []
