"""A softmax of 96 rows, which teams of 2, 3 and 8 share evenly."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.softmax(-1)


def get_inputs():
    return [torch.randn(96, 128)]


def get_init_inputs():
    return []
