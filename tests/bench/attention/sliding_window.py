"""Causal attention over a window of 512 keys, four query heads to a key head, bfloat16."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH, HEADS, KEY_HEADS, LENGTH, COLUMNS, WINDOW = 2, 16, 4, 4096, 128, 512


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        row = torch.arange(q.shape[-2], device=q.device)[:, None]
        key = torch.arange(k.shape[-2], device=q.device)
        seen = (key <= row) & (row - key < WINDOW)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)


def get_inputs() -> list[torch.Tensor]:
    heads = (HEADS, KEY_HEADS, KEY_HEADS)
    return [torch.randn(BATCH, each, LENGTH, COLUMNS, dtype=torch.bfloat16) for each in heads]


def get_init_inputs() -> list[object]:
    return []
