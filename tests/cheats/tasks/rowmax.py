"""Its own inputs are sorted, which nobody promised."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.max(dim=1).values


def get_inputs():
    return [torch.rand(29, 64).sort(dim=1).values]


def get_init_inputs():
    return []
