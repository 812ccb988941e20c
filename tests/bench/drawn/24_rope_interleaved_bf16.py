import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, k, cos, sin):
        a, b = k[..., 0::2], k[..., 1::2]
        r = torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1)
        return r.flatten(-2)


def get_inputs():
    return [
        torch.randn(2, 12, 333, 64, dtype=torch.bfloat16),
        torch.randn(333, 32, dtype=torch.bfloat16),
        torch.randn(333, 32, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return []
