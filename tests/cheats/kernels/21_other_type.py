# Returns another type than the reference.
# row: 21
# task: softmax
# caught by: output
# says: float64
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        powers = (x - x.amax(dim=1, keepdim=True)).exp()
        return (powers / powers.sum(dim=1, keepdim=True)).double()
