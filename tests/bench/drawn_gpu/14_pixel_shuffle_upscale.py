import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(64, 256, 3, padding=1)
        self.slope = nn.PReLU()

    def forward(self, x):
        return self.slope(F.pixel_shuffle(self.conv(x), 2))


def get_inputs():
    return [torch.randn(8, 64, 180, 320)]


def get_init_inputs():
    return []
