"""Means over what a mask shows of each row, where nothing is shown zero."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, shown):
        return (x * shown).sum(1) / shown.sum(1).clamp(min=1)


def get_inputs():
    return [torch.randn(48, 40), torch.rand(48, 40) < 0.5]


def get_init_inputs():
    return []
