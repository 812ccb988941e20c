# Attributes by their names as text, and a question for a type.
# row: 62
# task: scaled
# passes
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(columns))

    def forward(self, x, s: float):
        factor = getattr(self, "weight") * s
        return x * factor if type(s) is float else x * factor.to(x.dtype)
