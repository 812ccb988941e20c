import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, scores, mask):
        s = 30.0 * torch.tanh(scores / 30.0)
        return torch.softmax(s.masked_fill(~mask, -1e9), dim=-1)


def get_inputs():
    return [torch.randn(8, 12, 197, 197) * 3, torch.rand(8, 1, 197, 197) > 0.2]


def get_init_inputs():
    return []
