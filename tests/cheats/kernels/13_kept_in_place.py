# Keeps a result in a tensor of its own, by an operation in place.
# row: 13
# task: softsign
# caught by: screen:cache
# says: add_
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = torch.zeros(37, 129)

    def forward(self, x):
        result = x / (1 + torch.maximum(x, -x))
        self.kept.mul_(0).add_(result)
        return result
