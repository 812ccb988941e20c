"""ViT-B/16 in bfloat16 on 16 images, with random weights: a budget of seconds is tried on it beside a GPU."""

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, WIDTH, HEADS, PATCH, IMAGE, CLASSES = 12, 768, 12, 16, 224, 1000
BATCH = 16


class Block(nn.Module):
    """Attention and an MLP, each behind a norm and beside a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer."""
        batch, tokens, _ = x.shape
        shape = (batch, tokens, HEADS, WIDTH // HEADS)
        q, k, v = (each.reshape(shape).transpose(1, 2) for each in self.qkv(self.norm1(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, WIDTH)
        x = x + self.out(mixed)
        result: torch.Tensor = x + self.down(F.gelu(self.up(self.norm2(x))))
        return result


class Model(nn.Module):
    """Images to logits."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.first = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.randn(1, (IMAGE // PATCH) ** 2 + 1, WIDTH) * 0.02)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)
        self.to(torch.bfloat16)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The logits of each image's classes."""
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.positions
        logits: torch.Tensor = self.head(self.norm(self.blocks(x))[:, 0])
        return logits


def get_inputs() -> list[torch.Tensor]:
    """A batch of random images."""
    return [torch.randn(BATCH, 3, IMAGE, IMAGE).to(torch.bfloat16)]


def get_init_inputs() -> list[object]:
    """None."""
    return []
