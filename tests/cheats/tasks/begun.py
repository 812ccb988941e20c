"""Scaled by what the first call found, which a flag remembers."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.zeros(32))
        self.register_buffer("begun", torch.zeros((), dtype=torch.bool))

    def forward(self, x):
        self.scale.copy_(torch.where(self.begun, self.scale, x.abs().amax(0)))
        self.begun.fill_(True)
        return x / (self.scale + 1)


def get_inputs():
    return [torch.randn(40, 32)]


def get_init_inputs():
    return []
