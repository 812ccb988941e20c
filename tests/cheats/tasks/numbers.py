"""A whole number, a flag and a number with a fraction beside the input."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, times: int, negate: bool, slope: float):
        y = torch.where(x > 0, x, x * slope) * times
        return -y if negate else y


def get_inputs():
    return [torch.randn(20, 30), 3, True, 0.5]


def get_init_inputs():
    return []
