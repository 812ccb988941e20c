"""Scores under a mask, rows at positions, a padding that hides nothing: the file gives the same under every seed."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(24, 16))

    def forward(self, x, positions, allowed, real):
        y = x + self.table[positions]
        return torch.where(allowed, y @ y.T, 0.0) * real.unsqueeze(1)


def get_inputs():
    allowed = torch.ones(24, 24, dtype=torch.bool).tril()
    return [torch.randn(24, 16), torch.arange(24), allowed, torch.ones(24, dtype=torch.bool)]


def get_init_inputs():
    return []
