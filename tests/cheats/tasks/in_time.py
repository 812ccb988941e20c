"""The mean of the steps of each recording that are there; recordings are in the order of their lengths."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, lengths):
        shown = torch.arange(x.shape[1]) < lengths[:, None]
        return (x * shown[..., None]).sum(1) / lengths[:, None]


def get_inputs():
    return [torch.randn(8, 32, 16), torch.randint(4, 33, (8,)).sort().values]


def get_init_inputs():
    return []
