"""Differences, of equal numbers nothing."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.where(a == b, 0.0, a - b)


def get_inputs():
    return [torch.randn(64, 256), torch.randn(64, 256)]


def get_init_inputs():
    return []
