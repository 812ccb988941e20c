# A list of functions, each of which has a weight of its own.
# row: 30
# task: scaled
# caught by: correctness
# says: wrong on
import torch
from torch import nn


def times(weight, x, s):
    return x * weight * s


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(columns))
        weight = self.weight
        self.steps = [lambda x: times(weight, x, 1.0)]

    def forward(self, x, s: float):
        return self.steps[0](x) * s
