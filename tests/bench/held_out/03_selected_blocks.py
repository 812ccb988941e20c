"""Native sparse attention's selected branch: blocks of keys by their means, the best few for one query."""

import math

import torch
from torch import nn

BATCH, HEADS, LENGTH, WIDTH, BLOCK, BEST = 4, 8, 512, 32, 32, 4


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        blocks = k.unflatten(2, (-1, BLOCK))
        means, values = blocks.mean(3), v.unflatten(2, (-1, BLOCK))
        rough = torch.einsum("bhd,bhnd->bhn", q, means) / math.sqrt(WIDTH)
        coarse = torch.einsum("bhn,bhnd->bhd", rough.softmax(-1), values.mean(3))
        places = rough.topk(BEST, -1).indices.sort(-1).values
        taken = places[..., None, None].expand(-1, -1, -1, BLOCK, WIDTH)
        keys, chosen = blocks.gather(2, taken).flatten(2, 3), values.gather(2, taken).flatten(2, 3)
        share = (torch.einsum("bhd,bhnd->bhn", q, keys) / math.sqrt(WIDTH)).softmax(-1)
        fine = torch.einsum("bhn,bhnd->bhd", share, chosen)
        weight = gate.sigmoid()
        return weight[..., :1] * coarse + weight[..., 1:] * fine


def get_inputs() -> list[torch.Tensor]:
    keys = (BATCH, HEADS, LENGTH, WIDTH)
    return [torch.randn(BATCH, HEADS, WIDTH), torch.randn(keys), torch.randn(keys), torch.randn(BATCH, HEADS, 2)]


def get_init_inputs() -> list[object]:
    return []
