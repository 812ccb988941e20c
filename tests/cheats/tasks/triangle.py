"""The product of two triangles, of which the module says nothing but what it keeps."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.tril(a @ b)


def get_inputs():
    return [torch.randn(60, 60).tril(), torch.randn(60, 60).tril()]


def get_init_inputs():
    return []
