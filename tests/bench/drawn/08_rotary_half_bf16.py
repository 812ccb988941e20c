import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, q, cos, sin, positions):
        c = cos[positions].unsqueeze(1)
        s = sin[positions].unsqueeze(1)
        a, b = q.chunk(2, dim=-1)
        return q * c + torch.cat((-b, a), dim=-1) * s


def get_inputs():
    return [
        torch.randn(4, 16, 256, 80, dtype=torch.bfloat16),
        torch.randn(1024, 80, dtype=torch.bfloat16),
        torch.randn(1024, 80, dtype=torch.bfloat16),
        torch.randint(0, 1024, (4, 256)),
    ]


def get_init_inputs():
    return []
