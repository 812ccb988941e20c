"""A square matrix product, where eager PyTorch calls a tuned library: hard to beat, and reported either way."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(512, 512), torch.randn(512, 512)]


def get_init_inputs() -> list[object]:
    return []
