"""An optimizer's correction, at its first step here."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, m, step):
        return m / (1 - 0.9**step)


def get_inputs():
    return [torch.randn(30, 40), torch.tensor(1)]


def get_init_inputs():
    return []
