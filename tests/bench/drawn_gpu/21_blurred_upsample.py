import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        taps = torch.tensor([1.0, 3.0, 3.0, 1.0])
        self.register_buffer("taps", (taps[:, None] * taps / 64).expand(64, 1, 4, 4).contiguous())

    def forward(self, x):
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        return F.leaky_relu(F.conv2d(F.pad(x, (1, 2, 1, 2)), self.taps, groups=64), 0.2)


def get_inputs():
    return [torch.randn(8, 64, 128, 128)]


def get_init_inputs():
    return []
