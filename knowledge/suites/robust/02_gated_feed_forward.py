"""The gated feed-forward of a language model: two products, a gate, a third product."""

import torch
from torch import nn
from torch.nn import functional

WORKLOADS = [
    {"batch": batch, "tokens": tokens, "features": features, "hidden": hidden}
    for batch, tokens in ((2, 128), (4, 1024))
    for features, hidden in ((4096, 14336), (4096, 7168), (2048, 14336), (2048, 7168))
]


class Model(nn.Module):
    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.randn(hidden, features) / features**0.5)
        self.up = nn.Parameter(torch.randn(hidden, features) / features**0.5)
        self.down = nn.Parameter(torch.randn(features, hidden) / hidden**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gated = functional.silu(functional.linear(x, self.gate)) * functional.linear(x, self.up)
        return functional.linear(gated, self.down)


def get_inputs(batch: int = 2, tokens: int = 128, features: int = 4096) -> list[torch.Tensor]:
    return [torch.randn(batch, tokens, features)]


def get_init_inputs(features: int = 4096, hidden: int = 14336) -> list[object]:
    return [features, hidden]
