import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        s = x.abs().amax(dim=-1, keepdim=True).clamp_min(1e-5) / 127.0
        q = torch.round(x / s).clamp(-128, 127).to(torch.int8)
        return q, s


def get_inputs():
    return [torch.randn(4000, 520)]


def get_init_inputs():
    return []
