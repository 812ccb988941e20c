# Calls it as a module.
# row: 25
# task: softmax
# caught by: screen:operator
# says: Softmax
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.Sequential(nn.Softmax(dim=1))

    def forward(self, x):
        return self.act(x)
