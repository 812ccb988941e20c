# Comments and strings that name what is refused, and the reference's own class beside it, unused.
# row: 42
# task: softmax
# passes
import torch
from torch import nn

"""import os; exec("softmax")"""  # F.softmax(x), try/except


class Model(nn.Module):
    def forward(self, x):
        return x


class ModelNew(nn.Module):
    def forward(self, x):
        powers = (x - x.amax(dim=1, keepdim=True)).exp()
        return powers / powers.sum(dim=1, keepdim=True)


def get_inputs():
    return [torch.rand(6, 3000)]
