# Parameters of the reference's names, read in every call.
# row: 30
# task: scaled
# passes
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(columns))

    def forward(self, x, s: float):
        return x * (self.weight * s)
