"""Differential attention: one map of attention less a learned share of another, each head normalized."""

import math

import torch
from torch import nn

BATCH, LENGTH, HEADS, WIDTH = 2, 128, 4, 32
FIRST = 0.8 - 0.6 * math.exp(-0.3 * 3)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        size = 2 * HEADS * WIDTH
        self.q, self.k, self.v, self.out = (nn.Linear(size, size, bias=False) for _ in range(4))
        self.lambdas = nn.Parameter(0.1 * torch.randn(4, WIDTH))
        self.norm = nn.RMSNorm(2 * WIDTH, eps=1e-5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k = (each(x).unflatten(-1, (2 * HEADS, WIDTH)).transpose(1, 2) for each in (self.q, self.k))
        v = self.v(x).unflatten(-1, (HEADS, 2 * WIDTH)).transpose(1, 2)
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH)
        later = torch.full((LENGTH, LENGTH), -torch.inf, device=x.device).triu(1)
        share = (scores + later).softmax(-1).unflatten(1, (HEADS, 2))
        a, b, c, d = self.lambdas
        weight = (a * b).sum().exp() - (c * d).sum().exp() + FIRST
        made = (share[:, :, 0] - weight * share[:, :, 1]) @ v
        return self.out((self.norm(made) * (1 - FIRST)).transpose(1, 2).flatten(2))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, LENGTH, 2 * HEADS * WIDTH)]


def get_init_inputs() -> list[object]:
    return []
