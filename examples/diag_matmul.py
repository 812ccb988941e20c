"""A diagonal matrix times a dense one. Written this way it is a full matrix product; it need only scale rows."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.diag(a) @ b


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(1024), torch.randn(1024, 1024)]


def get_init_inputs() -> list[object]:
    return []
