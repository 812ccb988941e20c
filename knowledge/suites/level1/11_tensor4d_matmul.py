"""The last axis of a tensor of four contracted with a matrix, as an einsum."""

import torch
from torch import nn

SIZES = {"batch": 8, "i": 256, "j": 512, "k": 256, "n": 768}
batch, i, j, k, n = SIZES.values()


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.einsum("bijk,kn->bijn", a, b)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch, i, j, k), torch.rand(k, n)]


def get_init_inputs() -> list[object]:
    return []
