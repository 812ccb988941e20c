import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, logits):
        lp = F.log_softmax(logits, dim=-1)
        p = lp.exp()
        return -(p * lp).sum(-1), p.max(-1).values


def get_inputs():
    return [torch.randn(700, 300, dtype=torch.float64)]


def get_init_inputs():
    return []
