import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Rotary with NTK scaling, Llama's original table of complex numbers as a buffer; causal attention behind it."""

    def __init__(self, heads=4, d=32, length=128, scale=4.0):
        super().__init__()
        self.heads = heads
        theta = 10000.0 * scale ** (d / (d - 2))
        inv = 1.0 / theta ** (torch.arange(0, d, 2).float() / d)
        angle = torch.outer(torch.arange(length).float(), inv)
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(angle), angle), persistent=False)

    def turned(self, x):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.freqs_cis[: x.shape[1]].view(1, x.shape[1], 1, -1)).flatten(3).type_as(x)

    def forward(self, q, k, v):
        q, k = self.turned(q), self.turned(k)
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


def get_inputs():
    return [torch.randn(2, 96, 4, 32) for _ in range(3)]
