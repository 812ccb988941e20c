# A data class holds settings, whose types a pattern asks for.
# row: 62
# task: softmax
# passes
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Settings:
    dim: int = 1
    scale: float = 1.0


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.settings = Settings()

    def forward(self, x):
        held = self.settings
        match [held.dim, held.scale]:
            case [int(dim), float(scale)]:
                powers = torch.exp((x - x.amax(dim, keepdim=True)) * scale)
                return powers / powers.sum(dim, keepdim=True)
        return x
