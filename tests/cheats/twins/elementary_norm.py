# A norm of means and elementary functions.
# row: 63
# task: norm
# passes
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        return centred * torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + 1e-5)
