"""Quarters, counted from below."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.round((x + 1) * 4)


def get_inputs():
    return [torch.randn(32, 256)]


def get_init_inputs():
    return []
