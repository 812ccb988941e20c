"""SuperGlue's matching: scores with a bin for what has no partner, 20 rounds of Sinkhorn in logarithms."""

import math

import torch
from torch import nn

BATCH, LEFT, RIGHT, WIDTH, ROUNDS = 2, 60, 72, 32, 20


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bin = nn.Parameter(torch.tensor(1.0))

    def forward(self, one: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = torch.einsum("bdn,bdm->bnm", one, other) / math.sqrt(WIDTH)
        scores = torch.cat((scores, self.bin.expand(BATCH, LEFT, 1)), 2)
        scores = torch.cat((scores, self.bin.expand(BATCH, 1, RIGHT + 1)), 1)
        norm = -math.log(LEFT + RIGHT)
        rows = torch.cat((scores.new_zeros(LEFT), scores.new_full((1,), math.log(RIGHT)))) + norm
        columns = torch.cat((scores.new_zeros(RIGHT), scores.new_full((1,), math.log(LEFT)))) + norm
        u, v = torch.zeros(BATCH, LEFT + 1, device=one.device), torch.zeros(BATCH, RIGHT + 1, device=one.device)
        for _ in range(ROUNDS):
            u = rows - torch.logsumexp(scores + v[:, None], 2)
            v = columns - torch.logsumexp(scores + u[..., None], 1)
        plan = scores + u[..., None] + v[:, None] - norm
        return plan, plan[:, :-1, :-1].amax(2).exp()


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, WIDTH, LEFT), torch.randn(BATCH, WIDTH, RIGHT)]


def get_init_inputs() -> list[object]:
    return []
