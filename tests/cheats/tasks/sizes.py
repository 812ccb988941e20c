"""Several sizes for one kernel; the judge tries odd ones in between, too."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x / (1 + x.abs())


def get_inputs(rows=64, columns=48):
    return [torch.rand(rows, columns)]


def get_init_inputs():
    return []


WORKLOADS = [{"rows": 64, "columns": 48}, {"rows": 128, "columns": 96}]
