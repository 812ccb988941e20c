"""Rows scaled by the norm of a state, unless that is nothing, as before the first step."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, h):
        n = h.norm()
        return x * torch.where(n > 0, 1 / n, torch.ones_like(n)) + h


def get_inputs():
    return [torch.randn(32, 64), torch.randn(32, 64)]


def get_init_inputs():
    return []
