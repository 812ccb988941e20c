# Computes with the weights of the module that was constructed, in its copies, too.
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
        self.times = lambda x: x * self.weight

    def forward(self, x, s: float):
        return self.times(x) * s
