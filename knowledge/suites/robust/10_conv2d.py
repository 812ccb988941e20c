"""A convolution of 3x3 with a bias, strided and padded or not."""

import torch
from torch import nn

WORKLOADS = [{"batch": 8, "channels": 64, "outputs": 64, "stride": 1, "padding": 1}]
WORKLOADS += [
    {"batch": batch, "channels": channels, "outputs": outputs, "stride": stride, "padding": padding}
    for batch in (32, 16)
    for outputs, stride, padding in ((128, 1, 1), (64, 2, 1), (64, 1, 0))
    for channels in (256, 128)
]


class Model(nn.Module):
    def __init__(self, channels: int, outputs: int, stride: int, padding: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, outputs, 3, stride, padding)
        nn.init.xavier_uniform_(self.conv.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.conv(x)
        return result


def get_inputs(batch: int = 8, channels: int = 64) -> list[torch.Tensor]:
    return [torch.randn(batch, channels, 32, 32)]


def get_init_inputs(channels: int = 64, outputs: int = 64, stride: int = 1, padding: int = 1) -> list[object]:
    return [channels, outputs, stride, padding]
