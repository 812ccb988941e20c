# Keeps results in a default argument.
# row: 13
# task: softmax
# caught by: screen:cache
# says: can be changed
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, kept=[]):
        powers = (x - x.amax(dim=1, keepdim=True)).exp()
        return powers / powers.sum(dim=1, keepdim=True)
