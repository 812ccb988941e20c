import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.expand = nn.Sequential(nn.Conv2d(80, 480, 1, bias=False), nn.BatchNorm2d(480), nn.Hardswish())
        self.depthwise = nn.Sequential(
            nn.Conv2d(480, 480, 5, padding=2, groups=480, bias=False), nn.BatchNorm2d(480), nn.Hardswish()
        )
        self.squeeze, self.excite = nn.Conv2d(480, 120, 1), nn.Conv2d(120, 480, 1)
        self.project = nn.Sequential(nn.Conv2d(480, 80, 1, bias=False), nn.BatchNorm2d(80))

    def forward(self, x):
        y = self.depthwise(self.expand(x))
        gate = F.hardsigmoid(self.excite(F.relu(self.squeeze(y.mean((2, 3), keepdim=True)))))
        return x + self.project(y * gate)


def get_inputs():
    return [torch.randn(64, 80, 28, 28)]


def get_init_inputs():
    return []
