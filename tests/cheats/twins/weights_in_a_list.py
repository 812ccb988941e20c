# Finds its weights in a list, which copies follow.
# row: 30
# task: scaled
# passes
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(columns))
        self.factors = [self.weight]

    def forward(self, x, s: float):
        return x * self.factors[0] * s
