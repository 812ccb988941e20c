import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(2048, 64, bias=False)

    def forward(self, x):
        shares = self.gate(x.float()).softmax(-1)
        best, which = shares.topk(2, dim=-1)
        load = torch.zeros_like(shares).scatter(-1, which, 1.0).mean(0)
        return (best / best.sum(-1, keepdim=True)).to(x.dtype), which, 64 * (load * shares.mean(0)).sum()


def get_inputs():
    return [torch.randn(8192, 2048, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
