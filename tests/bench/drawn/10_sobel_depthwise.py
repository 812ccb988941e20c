import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        k = torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]])
        self.register_buffer("k", torch.stack((k, k.t())).unsqueeze(1))

    def forward(self, x):
        b, c, h, w = x.shape
        e = F.conv2d(F.pad(x.reshape(b * c, 1, h, w), (1, 1, 1, 1), mode="replicate"), self.k)
        return torch.sqrt(e.pow(2).sum(1) + 1e-6).reshape(b, c, h, w)


def get_inputs():
    return [torch.rand(4, 3, 301, 299)]


def get_init_inputs():
    return []
