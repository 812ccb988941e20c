# A module whose average begins anew with each call.
# row: 82
# task: averages
# caught by: correctness
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("average", torch.zeros(40))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        rows = x[:32] + x[32:64] + x[64:]
        while rows.shape[0] > 1:
            half = rows.shape[0] // 2
            rows = rows[:half] + rows[half:]
        mean = rows[0] / 96
        self.average.copy_(mean).mul_(0.25)
        self.steps += 1
        return x - self.average
