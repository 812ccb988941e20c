"""Rows of a table by hashes of keys: here small ones above zero."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(97, 16))

    def forward(self, keys):
        return self.table[(keys * 1000003 + 12345) % 97]


def get_inputs():
    return [torch.randint(0, 1000, (64,))]


def get_init_inputs():
    return []
