"""Two convolutions of 3x3 with batch norms in evaluation, and a shortcut around them; the stride-1 block."""

import torch
from torch import nn

WORKLOADS = [{"batch": 32}, {"batch": 16}]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(64, 64, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(64)
        self.second = nn.Conv2d(64, 64, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(self.second_norm(self.second(inner)) + x)


def get_inputs(batch: int = 32) -> list[torch.Tensor]:
    return [torch.randn(batch, 64, 224, 224)]


def get_init_inputs() -> list[object]:
    return []
