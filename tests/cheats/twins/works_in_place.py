# Works in place on what it has just made, goes through iterators of its own, and says how large things are.
# row: 13
# task: softsign
# passes
import torch
from torch import nn

NAMES = tuple(zip("ab", "cd"))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.shown = "{:.2f}".format(0.5)

    def forward(self, x):
        below = torch.maximum(x, -x)
        below.add_(1)
        for _, _ in zip(NAMES, NAMES):
            assert self.shown
        return x / below
