"""Gradients of a linear layer's rows, weight and bias."""

import torch
from torch import nn

WORKLOADS = [
    {"batch": batch, "features": features, "outputs": outputs, "start": start}
    for batch in (64, 4)
    for outputs, start in ((10, "kaiming"), (4096, "xavier"))
    for features in (128, 4096)
]


class Model(nn.Module):
    def __init__(self, features: int, outputs: int, start: str) -> None:
        super().__init__()
        self.linear = nn.Linear(features, outputs)
        if start == "kaiming":
            nn.init.kaiming_uniform_(self.linear.weight)
        else:
            nn.init.xavier_normal_(self.linear.weight)
        nn.init.normal_(self.linear.bias, std=0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.linear(x)
        return result


def get_inputs(batch: int = 64, features: int = 128) -> list[torch.Tensor]:
    return [torch.randn(batch, features)]


def get_init_inputs(features: int = 128, outputs: int = 10, start: str = "kaiming") -> list[object]:
    return [features, outputs, start]


DIRECTION = "backward"
