"""What the neighbours of each node send it."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, come, to):
        return x + torch.zeros_like(x).index_add(0, to, x[come])


def get_inputs():
    return [torch.randn(64, 32), torch.randint(64, (300,)), torch.randint(64, (300,))]


def get_init_inputs():
    return []
