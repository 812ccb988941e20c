"""Few weights are not zero, few features are not hidden."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 96) * (torch.rand(64, 96) < 0.1))
        self.register_buffer("shown", (torch.rand(96, 64) < 0.1).float())

    def forward(self, x):
        return F.linear(x, self.weight) + x @ self.shown


def get_inputs():
    return [torch.randn(4, 96)]


def get_init_inputs():
    return []
