"""A product with a rectifier behind it."""

import torch


class Model(torch.nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b)


def get_inputs():
    return [torch.randn(24, 96), torch.randn(96, 40)]
