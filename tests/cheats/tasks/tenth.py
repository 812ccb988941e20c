"""Less a mean, which every tenth step takes anew."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(32))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.steps += 1
        self.mean.copy_(torch.where(self.steps % 10 == 0, x.mean(0), self.mean))
        return x - self.mean


def get_inputs():
    return [torch.randn(40, 32)]


def get_init_inputs():
    return []
