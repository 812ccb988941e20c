"""Flags."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x > 0


def get_inputs():
    return [torch.randn(37, 129)]


def get_init_inputs():
    return []
