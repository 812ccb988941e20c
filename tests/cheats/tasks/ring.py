"""The mean of the last sixteen rows, which the forward keeps in a ring."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("ring", torch.zeros(16, 32))
        self.register_buffer("at", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.ring.index_copy_(0, (self.at % 16).reshape(1), x)
        self.at += 1
        return self.ring.mean(0)


def get_inputs():
    return [torch.randn(1, 32)]


def get_init_inputs():
    return []
