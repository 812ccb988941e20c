"""Sums of segments: here in order, and none without rows at the end."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, rows, segments):
        return torch.zeros(20, 16).index_add(0, segments, rows)


def get_inputs():
    return [torch.randn(100, 16), torch.sort(torch.randint(0, 20, (100,))).values]


def get_init_inputs():
    return []
