# Computes whatever size it is given.
# row: 81
# task: sizes
# passes
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x / (torch.maximum(-x, x) + 1)
