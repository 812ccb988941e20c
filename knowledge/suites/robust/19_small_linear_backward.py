"""Gradients of a small linear layer's rows, weight and bias."""

import torch
from torch import nn

WORKLOADS = [{"batch": 64, "features": 128, "outputs": 128, "start": "kaiming"}]
WORKLOADS += [
    {"batch": batch, "features": features, "outputs": outputs, "start": start}
    for batch in (32, 128)
    for outputs, start in ((128, "kaiming"), (64, "xavier"))
    for features in (128, 64)
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
