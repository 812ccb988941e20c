# Patterns with a rest, an alternative and a name.
# row: 62
# task: softsign
# passes
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        match {"input": x, "scale": 1.0}:
            case {"input": given, **rest}:
                return given / (rest["scale"] + torch.maximum(given, -given))
        return x
