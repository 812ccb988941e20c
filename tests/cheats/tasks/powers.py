"""Powers of magnitudes."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.pow(a.abs(), b)


def get_inputs():
    return [torch.rand(64, 256) + 0.5, torch.randn(64, 256)]


def get_init_inputs():
    return []
