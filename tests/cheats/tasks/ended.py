"""Scores of rows that have not ended: here few draws show the token that ends one."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, tokens, logits):
        done = (tokens == 50256).any(-1, keepdim=True)
        return torch.where(done, torch.zeros_like(logits), logits)


def get_inputs():
    return [torch.randint(0, 50257, (16, 12)), torch.randn(16, 100)]


def get_init_inputs():
    return []
