"""Places of numbers among edges that ascend."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("levels", torch.arange(0, 40, 4))

    def forward(self, x, edges):
        places = torch.bucketize(x, edges)
        return places, torch.searchsorted(self.levels, places, right=True)


def get_inputs():
    return [torch.randn(40, 96), torch.linspace(-2.0, 2.0, 33)]


def get_init_inputs():
    return []
