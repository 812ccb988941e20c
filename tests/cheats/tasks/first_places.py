"""Sums of a cache, into which the forward writes two rows first: here the first two."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.randn(16, 8))

    def forward(self, fresh, places):
        return self.cache.index_copy(0, places, fresh).cumsum(0)


def get_inputs():
    return [torch.randn(2, 8), torch.tensor([0, 1])]


def get_init_inputs():
    return []
