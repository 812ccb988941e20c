import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(1024, 1024, dtype=torch.bfloat16)
        self.norm = nn.LayerNorm(1024, dtype=torch.bfloat16)

    def forward(self, attended, x):
        return self.norm(x + self.out(attended.transpose(1, 2).flatten(2)))


def get_inputs():
    return [torch.randn(16, 16, 512, 64, dtype=torch.bfloat16), torch.randn(16, 512, 1024, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
