import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim, k):
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, k, padding=k - 1, groups=dim)

    def forward(self, x):
        y = self.conv(x.transpose(1, 2))[..., : x.shape[1]]
        return F.silu(y).transpose(1, 2)


def get_inputs():
    return [torch.randn(6, 500, 384)]


def get_init_inputs():
    return [384, 4]
