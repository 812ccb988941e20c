"""Codes of eight bits and their one scale, which is held above nothing."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        s = x.abs().max().clamp(min=1e-8) / 127
        return (x / s).round().to(torch.int8), s


def get_inputs():
    return [torch.randn(32, 64)]


def get_init_inputs():
    return []
