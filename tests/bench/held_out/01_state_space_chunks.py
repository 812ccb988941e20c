"""Mamba-2's state space duality in chunks: inside a chunk products with decays, between chunks the states alone."""

import torch
from torch import nn

BATCH, LENGTH, HEADS, WIDTH, STATE, CHUNK = 2, 256, 4, 16, 16, 64


def decays(rate: torch.Tensor) -> torch.Tensor:
    """exp of the sum of the rates after a place up to another, 0 above the diagonal."""
    total = rate.cumsum(-1)
    gap = total[..., :, None] - total[..., None, :]
    seen = torch.ones(gap.shape[-2:], dtype=torch.bool, device=gap.device).tril()
    return gap.masked_fill(~seen, -torch.inf).exp()


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.log_rate = nn.Parameter(torch.linspace(0.0, 1.0, HEADS))
        self.skip = nn.Parameter(torch.ones(HEADS))

    def forward(self, x: torch.Tensor, step: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        step = nn.functional.softplus(step)
        rate = (-self.log_rate.exp() * step).unflatten(1, (-1, CHUNK)).permute(0, 3, 1, 2)
        given = (x * step[..., None]).unflatten(1, (-1, CHUNK))
        b, c = b.unflatten(1, (-1, CHUNK)), c.unflatten(1, (-1, CHUNK))
        inside = torch.einsum("bcln,bcsn,bhcls,bcshp->bclhp", c, b, decays(rate), given)
        total = rate.cumsum(-1)
        states = torch.einsum("bcln,bhcl,bclhp->bchpn", b, (total[..., -1:] - total).exp(), given)
        states = torch.cat((torch.zeros_like(states[:, :1]), states), 1)
        between = decays(nn.functional.pad(total[..., -1], (1, 0)))
        states = torch.einsum("bhzc,bchpn->bzhpn", between, states)[:, :-1]
        across = torch.einsum("bcln,bchpn,bhcl->bclhp", c, states, total.exp())
        return (inside + across).flatten(1, 2) + x * self.skip[:, None]


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, LENGTH, HEADS, WIDTH), torch.randn(BATCH, LENGTH, HEADS),
            torch.randn(BATCH, LENGTH, STATE), torch.randn(BATCH, LENGTH, STATE)]  # fmt: skip


def get_init_inputs() -> list[object]:
    return []
