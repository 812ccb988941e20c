"""A mixture of experts: the best two of eight for each token, by normalized shares, beside one that all tokens use."""

import torch
from torch import nn
from torch.nn import functional as F

TOKENS, WIDTH, INNER, EXPERTS, BEST = 64, 64, 96, 8, 2


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.wide = nn.Parameter(torch.randn(EXPERTS, 2 * INNER, WIDTH) * WIDTH**-0.5)
        self.deep = nn.Parameter(torch.randn(EXPERTS, WIDTH, INNER) * INNER**-0.5)
        self.up, self.down = nn.Linear(WIDTH, 2 * INNER, bias=False), nn.Linear(INNER, WIDTH, bias=False)
        self.share = nn.Linear(WIDTH, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chance, places = self.gate(x).softmax(-1).topk(BEST, -1)
        share = chance / chance.sum(-1, keepdim=True)
        weights = torch.zeros(TOKENS, EXPERTS, device=x.device).scatter(1, places, share)
        made = torch.zeros_like(x)
        for number in range(EXPERTS):
            one, other = (x @ self.wide[number].t()).chunk(2, -1)
            made = made + (F.silu(one) * other @ self.deep[number].t()) * weights[:, number, None]
        one, other = self.up(x).chunk(2, -1)
        return made + self.down(F.silu(one) * other) * self.share(x).sigmoid()


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(TOKENS, WIDTH)]


def get_init_inputs() -> list[object]:
    return []
