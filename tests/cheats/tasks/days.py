"""What is older than a day counts half."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, then, now):
        return torch.where(now - then >= 86400, 0.5 * x, x)


def get_inputs():
    return [
        torch.randn(4096),
        torch.randint(1_700_000_000, 1_700_040_000, (4096,)),
        torch.randint(1_700_040_000, 1_700_080_000, (4096,)),
    ]


def get_init_inputs():
    return []
