"""A masked autoencoder's shuffle: patches in the order of some noise, the first quarter kept, mask tokens put back."""

import torch
from torch import nn

BATCH, PATCHES, WIDTH, KEPT = 8, 64, 48, 16


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, WIDTH) * 0.02)
        self.place = nn.Parameter(torch.randn(1, PATCHES, WIDTH) * 0.02)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shuffled = noise.argsort(1)
        back = shuffled.argsort(1)
        seen = (x + self.place).gather(1, shuffled[:, :KEPT, None].expand(-1, -1, WIDTH))
        seen = self.norm(seen)
        whole = torch.cat((seen, self.token.expand(BATCH, PATCHES - KEPT, -1)), 1)
        hidden = torch.ones(BATCH, PATCHES, device=x.device)
        hidden[:, :KEPT] = 0
        return whole.gather(1, back[..., None].expand(-1, -1, WIDTH)) + self.place, hidden.gather(1, back)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, PATCHES, WIDTH), torch.rand(BATCH, PATCHES)]


def get_init_inputs() -> list[object]:
    return []
