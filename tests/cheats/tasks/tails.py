"""Functions whose results become small: what is nothing beside the others has digits of its own."""

import torch
from torch import nn
from torch.nn import functional


class Model(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x), functional.softplus(x), torch.expm1(x), x.softmax(-1)


def get_inputs():
    return [torch.randn(48, 80)]


def get_init_inputs():
    return []
