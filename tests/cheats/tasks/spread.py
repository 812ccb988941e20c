"""Rows, each less its mean and over its standard deviation."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        spread = x.var(dim=1, correction=0, keepdim=True)
        return (x - x.mean(dim=1, keepdim=True)) * torch.rsqrt(spread + 1e-5)


def get_inputs():
    return [torch.rand(40, 256)]


def get_init_inputs():
    return []
