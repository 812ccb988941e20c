"""From a language model's width to its feed-forward's."""

import torch
from torch import nn

SIZES = {"m": 4096, "n": 11008, "k": 4096}
m, n, k = SIZES["m"], SIZES["n"], SIZES["k"]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(k, n, bias=False, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(m, k, dtype=torch.bfloat16)]


def get_init_inputs() -> list[object]:
    return []
