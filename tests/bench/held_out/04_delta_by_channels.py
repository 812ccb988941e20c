"""Kimi's delta attention, step by step: every channel of the state fades at its own rate before it is corrected."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH, LENGTH, HEADS, WIDTH = 2, 64, 2, 16


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.log_rate = nn.Parameter(torch.zeros(HEADS))
        self.bias = nn.Parameter(torch.randn(HEADS, WIDTH))

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gate: torch.Tensor, rate: torch.Tensor
    ) -> torch.Tensor:
        q, k, rate = F.normalize(q, dim=-1) * WIDTH**-0.5, F.normalize(k, dim=-1), rate.sigmoid()
        kept = torch.exp(-self.log_rate.exp()[:, None] * F.softplus(gate + self.bias))
        state, seen = q.new_zeros(BATCH, HEADS, WIDTH, WIDTH), []
        for t in range(LENGTH):
            state = state * kept[:, t, :, :, None]
            gap = v[:, t] - torch.einsum("bhk,bhkv->bhv", k[:, t], state)
            state = state + torch.einsum("bhk,bhv->bhkv", k[:, t] * rate[:, t, :, None], gap)
            seen.append(torch.einsum("bhk,bhkv->bhv", q[:, t], state))
        return torch.stack(seen, 1)


def get_inputs() -> list[torch.Tensor]:
    one = (BATCH, LENGTH, HEADS, WIDTH)
    return [*(torch.randn(one) for _ in range(4)), torch.randn(BATCH, LENGTH, HEADS)]


def get_init_inputs() -> list[object]:
    return []
