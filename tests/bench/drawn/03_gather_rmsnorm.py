import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocab, dim))
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, ids, segments):
        x = self.table[ids] + self.table[segments] * 0.5
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def get_inputs():
    return [torch.randint(0, 5000, (37, 200)), torch.randint(0, 4, (37, 200))]


def get_init_inputs():
    return [5000, 260]
