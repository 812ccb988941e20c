import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim, buckets):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(buckets) * 0.1)
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x, at):
        y = F.softplus(x) * self.scale - self.bias[at].unsqueeze(-1)
        return y / (1e-3 + y.pow(2).mean(-1, keepdim=True).sqrt())


def get_inputs():
    return [torch.randn(37, 129, 260), torch.randint(0, 64, (37, 129))]


def get_init_inputs():
    return [260, 64]
