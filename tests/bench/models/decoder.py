"""A Llama-3-8B block in bfloat16 on 2048 tokens, in plain PyTorch with random weights."""

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, GROUPS, INNER = 4096, 32, 8, 14336
EACH = WIDTH // HEADS
TOKENS = 2048


class Norm(nn.Module):
    """RMS norm in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows of length one, on average."""
        wide = x.float()
        result: torch.Tensor = self.weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).to(
            x.dtype
        )
        return result


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions."""
    one, two = x.chunk(2, -1)
    return x * cos + torch.cat([-two, one], -1) * sin


class Model(nn.Module):
    """Grouped attention with rotary positions, and SwiGLU."""

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = Norm(), Norm()
        self.q, self.out = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.k, self.v = (nn.Linear(WIDTH, GROUPS * EACH, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)
        angles = torch.outer(torch.arange(TOKENS).float(), 5e5 ** (-torch.arange(0, EACH, 2).float() / EACH))
        angles = torch.cat([angles, angles], -1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer."""
        batch, tokens, _ = x.shape
        seen = self.norm1(x)
        q = self.q(seen).view(batch, tokens, HEADS, EACH).transpose(1, 2)
        k, v = (each(seen).view(batch, tokens, GROUPS, EACH).transpose(1, 2) for each in (self.k, self.v))
        q, k = turned(q, self.cos, self.sin), turned(k, self.cos, self.sin)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, WIDTH))
        seen = self.norm2(x)
        result: torch.Tensor = x + self.down(F.silu(self.gate(seen)) * self.up(seen))
        return result


def get_inputs() -> list[torch.Tensor]:
    """Random activations."""
    return [torch.randn(1, TOKENS, WIDTH).to(torch.bfloat16)]


def get_init_inputs() -> list[object]:
    """None."""
    return []
