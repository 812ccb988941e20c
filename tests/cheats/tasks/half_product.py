"""A product of matrices in float16."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, weight):
        return x @ weight


def get_inputs():
    return [torch.randn(64, 128, dtype=torch.float16), torch.randn(128, 96, dtype=torch.float16)]


def get_init_inputs():
    return []
