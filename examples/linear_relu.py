"""A linear layer followed by a ReLU: the activation can ride along while the product is stored."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features_in: int, features_out: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(256, 512)]


def get_init_inputs() -> list[object]:
    return [512, 512]
