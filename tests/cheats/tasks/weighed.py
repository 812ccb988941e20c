"""Sums of rows times a mask that is numbers with a fraction."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, mask):
        return (x * mask).sum(-1)


def get_inputs():
    return [torch.randn(128, 300), (torch.rand(128, 300) < 0.5).float()]


def get_init_inputs():
    return []
