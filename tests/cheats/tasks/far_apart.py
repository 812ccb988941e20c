"""A bias by distance: near ones have one each, far ones share one, by the logarithm."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, bias, distance):
        far = 16 + (torch.log(distance.clamp_min(1).float() / 16) / 2.0794415 * 16).long()
        return bias[torch.where(distance < 16, distance, far.clamp_max(31))]


def get_inputs():
    return [torch.randn(32), torch.randint(0, 100, (64, 64))]


def get_init_inputs():
    return []
