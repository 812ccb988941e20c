import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = (nn.Linear(2048, 5632, bias=False, dtype=torch.bfloat16) for _ in range(2))
        self.down = nn.Linear(5632, 2048, bias=False, dtype=torch.bfloat16)

    def forward(self, x):
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


def get_inputs():
    return [torch.randn(4, 1024, 2048, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
