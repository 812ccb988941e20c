"""A Llama-3-8B block in bfloat16 that decodes: 16 sequences, one token each, over a static cache of 4096 tokens."""

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, GROUPS, INNER = 4096, 32, 8, 14336
EACH = WIDTH // HEADS
BATCH, CACHED = 16, 4096


class Model(nn.Module):
    """One layer at the last position; the new rows of the cache are results, which the caller writes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH, eps=1e-5), nn.RMSNorm(WIDTH, eps=1e-5)
        self.q, self.out = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.k, self.v = (nn.Linear(WIDTH, GROUPS * EACH, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)
        self.to(torch.bfloat16)

    def forward(
        self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The token's new state, and its key and value."""
        seen = self.norm1(x)
        q = self.q(seen).view(BATCH, 1, HEADS, EACH).transpose(1, 2)
        k, v = (each(seen).view(BATCH, 1, GROUPS, EACH).transpose(1, 2) for each in (self.k, self.v))
        q, k = (each * cos + torch.cat([-each[..., EACH // 2 :], each[..., : EACH // 2]], -1) * sin for each in (q, k))
        all_keys, all_values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        mixed = F.scaled_dot_product_attention(q, all_keys, all_values, enable_gqa=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(BATCH, 1, WIDTH))
        seen = self.norm2(x)
        return x + self.down(F.silu(self.gate(seen)) * self.up(seen)), k, v


def get_inputs() -> list[torch.Tensor]:
    """Random activations, a cache, and the turn of one position."""
    angles = CACHED * 5e5 ** (-torch.arange(0, EACH, 2).float() / EACH)
    angles = torch.cat([angles, angles], -1)
    shapes = [(BATCH, 1, WIDTH), (BATCH, GROUPS, CACHED - 1, EACH), (BATCH, GROUPS, CACHED - 1, EACH)]
    return [torch.randn(*shape).to(torch.bfloat16) for shape in shapes] + [
        each.to(torch.bfloat16) for each in (angles.cos(), angles.sin())
    ]


def get_init_inputs() -> list[object]:
    """None."""
    return []
