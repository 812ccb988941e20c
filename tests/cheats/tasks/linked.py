"""Each node is linked with itself alone here."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, scores, linked):
        return torch.where(linked, scores, -1e9).softmax(-1)


def get_inputs():
    return [torch.randn(3, 24, 24), torch.eye(24, dtype=torch.bool)]


def get_init_inputs():
    return []
