"""Layer norm over everything but the batch: few, very long rows."""

import torch
from torch import nn
from torch.nn import functional

WORKLOADS = [
    {"batch": batch, "channels": channels, "height": height, "width": width, "start": start}
    for batch in (1, 8)
    for start in ("random", "standard")
    for channels, height, width in ((64, 256, 256), (1, 256, 256))
]


class Model(nn.Module):
    def __init__(self, channels: int, height: int, width: int, start: str) -> None:
        super().__init__()
        shape = (channels, height, width)
        self.weight = nn.Parameter(torch.ones(shape) if start == "standard" else torch.randn(shape))
        self.bias = nn.Parameter(torch.zeros(shape) if start == "standard" else torch.randn(shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias)


def get_inputs(batch: int = 1, channels: int = 64, height: int = 256, width: int = 256) -> list[torch.Tensor]:
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs(channels: int = 64, height: int = 256, width: int = 256, start: str = "random") -> list[object]:
    return [channels, height, width, start]
