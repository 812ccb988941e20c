"""Sums over tokens but for three that the module names, of which the file draws none."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, tokens, x):
        hidden = (tokens == 101) | (tokens == 102) | (tokens == 0)
        return (x * (~hidden).unsqueeze(-1)).sum(1)


def get_inputs():
    return [torch.randint(1000, 30000, (8, 24)), torch.randn(8, 24, 32)]


def get_init_inputs():
    return []
