"""NaN and infinities replaced by numbers."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.nan_to_num(x, nan=0.5)


def get_inputs():
    return [torch.randn(60, 77)]


def get_init_inputs():
    return []
