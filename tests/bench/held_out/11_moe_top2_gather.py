import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Mixture of experts: the two best experts' weights are gathered for each token."""

    def __init__(self, d=64, f=96, experts=8):
        super().__init__()
        self.router = nn.Linear(d, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, f, d) * d**-0.5)
        self.down = nn.Parameter(torch.randn(experts, d, f) * f**-0.5)

    def forward(self, x):
        gate, chosen = self.router(x).softmax(-1).topk(2, -1)
        gate = gate / gate.sum(-1, keepdim=True)
        hidden = F.silu(torch.einsum("td,tkfd->tkf", x, self.up[chosen]))
        out = torch.einsum("tkf,tkdf->tkd", hidden, self.down[chosen])
        return (out * gate.unsqueeze(-1)).sum(1)


def get_inputs():
    return [torch.randn(64, 64)]
