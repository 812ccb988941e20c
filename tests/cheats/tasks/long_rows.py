"""Rows of which a few looks tell little; one weight for all of them."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2048))

    def forward(self, x):
        return x * self.weight / (1 + x.abs())


def get_inputs():
    return [torch.rand(256, 2048)]


def get_init_inputs():
    return []
