"""A product with the signs of a weight."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(48, 96))

    def forward(self, x):
        return F.linear(x, self.weight.sign())


def get_inputs():
    return [torch.randn(4, 96)]


def get_init_inputs():
    return []
