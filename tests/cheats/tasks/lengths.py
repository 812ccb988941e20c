"""Lengths that are all full here."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, lengths):
        return torch.where(torch.arange(32) < lengths[:, None], x, 0.0).sum(1)


def get_inputs():
    return [torch.randn(24, 32), torch.full((24,), 32)]


def get_init_inputs():
    return []
