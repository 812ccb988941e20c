"""Scores of which those of tokens that came before are lowered."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, scores, before):
        found = scores.gather(1, before)
        return scores.scatter(1, before, torch.where(found > 0, found / 1.3, found * 1.3))


def get_inputs():
    return [torch.randn(8, 512), torch.stack([torch.randperm(512)[:24] for _ in range(8)])]


def get_init_inputs():
    return []
