"""How often each of 256 values occurs in each image."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, images):
        flat = images.reshape(images.shape[0], -1).long()
        return torch.zeros(images.shape[0], 256, dtype=torch.long).scatter_add(1, flat, torch.ones_like(flat))


def get_inputs():
    return [torch.randint(0, 256, (4, 32, 32), dtype=torch.uint8)]


def get_init_inputs():
    return []
