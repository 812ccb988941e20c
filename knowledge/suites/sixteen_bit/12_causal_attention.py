"""Attention of every token to those before it."""

import torch
from torch import nn
from torch.nn import functional

SIZES = {"batch": 4, "heads": 32, "tokens": 4096, "width": 128}
batch, heads, tokens, width = SIZES["batch"], SIZES["heads"], SIZES["tokens"], SIZES["width"]


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch, heads, tokens, width, dtype=torch.bfloat16) for _ in range(3)]


def get_init_inputs() -> list[object]:
    return []
