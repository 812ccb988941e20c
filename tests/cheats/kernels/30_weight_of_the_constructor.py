# Holds on to the parameter that the constructor made.
# row: 30
# task: scaled
# caught by: correctness
# says: wrong on
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(columns))
        weight = self.weight
        self.times = lambda x: x * weight

    def forward(self, x, s: float):
        return self.times(x) * s
