"""A whitening matrix that is the identity until it has been estimated."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(32))
        self.register_buffer("whiten", torch.eye(32))

    def forward(self, x):
        return (x - self.mean) @ self.whiten


def get_inputs():
    return [torch.randn(50, 32)]


def get_init_inputs():
    return []
