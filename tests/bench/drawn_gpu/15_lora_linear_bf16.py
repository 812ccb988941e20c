import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(4096, 4096, bias=False, dtype=torch.bfloat16)
        self.a = nn.Parameter(torch.randn(16, 4096, dtype=torch.bfloat16) * 0.02)
        self.b = nn.Parameter(torch.randn(4096, 16, dtype=torch.bfloat16) * 0.02)

    def forward(self, x):
        return self.base(x) + (x @ self.a.T) @ self.b.T * 2.0


def get_inputs():
    return [torch.randn(2048, 4096, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
