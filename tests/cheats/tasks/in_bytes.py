"""Bytes of sixteenths."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.round(x * 16).clamp(-128, 127).to(torch.int8)


def get_inputs():
    return [torch.randn(32, 256)]


def get_init_inputs():
    return []
