"""Eight layers of Qwen3-0.6B's sizes in bfloat16 on 512 tokens, in plain PyTorch with random weights."""

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, WIDTH, HEADS, GROUPS, EACH, INNER, VOCABULARY = 8, 1024, 16, 8, 128, 3072, 151936
TOKENS = 512


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions."""
    one, two = x.chunk(2, -1)
    return x * cos + torch.cat([-two, one], -1) * sin


class Block(nn.Module):
    """Grouped attention with norms of queries and keys, and SwiGLU."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH, eps=1e-6), nn.RMSNorm(WIDTH, eps=1e-6)
        self.norm_q, self.norm_k = nn.RMSNorm(EACH, eps=1e-6), nn.RMSNorm(EACH, eps=1e-6)
        self.q, self.out = nn.Linear(WIDTH, HEADS * EACH, bias=False), nn.Linear(HEADS * EACH, WIDTH, bias=False)
        self.k, self.v = (nn.Linear(WIDTH, GROUPS * EACH, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """One layer."""
        batch, tokens, _ = x.shape
        seen = self.norm1(x)
        q = self.norm_q(self.q(seen).view(batch, tokens, HEADS, EACH)).transpose(1, 2)
        k = self.norm_k(self.k(seen).view(batch, tokens, GROUPS, EACH)).transpose(1, 2)
        v = self.v(seen).view(batch, tokens, GROUPS, EACH).transpose(1, 2)
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, HEADS * EACH))
        seen = self.norm2(x)
        result: torch.Tensor = x + self.down(F.silu(self.gate(seen)) * self.up(seen))
        return result


class Model(nn.Module):
    """Token ids to the logits of the last one."""

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(WIDTH, eps=1e-6), nn.Linear(WIDTH, VOCABULARY, bias=False)
        angles = torch.outer(torch.arange(TOKENS).float(), 1e6 ** (-torch.arange(0, EACH, 2).float() / EACH))
        angles = torch.cat([angles, angles], -1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.to(torch.bfloat16)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """The logits of the next token."""
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits: torch.Tensor = self.head(self.norm(x[:, -1:]))
        return logits


def get_inputs() -> list[torch.Tensor]:
    """Random ids."""
    return [torch.randint(VOCABULARY, (1, TOKENS))]


def get_init_inputs() -> list[object]:
    """None."""
    return []
