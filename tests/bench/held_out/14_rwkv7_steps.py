import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """RWKV7: the generalised delta rule, a matrix state a head, changed in place."""

    def forward(self, r, w, k, v, a):
        n, length, heads, d = r.shape
        k = F.normalize(k, dim=-1)
        decay = (-torch.exp(-F.softplus(-w) - 0.5)).exp()
        a = a.sigmoid()
        state = torch.zeros(n, heads, d, d)
        out = torch.empty_like(v)
        for t in range(length):
            seen = state @ k[:, t].unsqueeze(-1)
            state.mul_(decay[:, t].unsqueeze(-2))
            state.sub_(seen * (a[:, t] * k[:, t]).unsqueeze(-2))
            state.add_(v[:, t].unsqueeze(-1) * k[:, t].unsqueeze(-2))
            out[:, t] = (state @ r[:, t].unsqueeze(-1)).squeeze(-1)
        return out


def get_inputs():
    return [torch.randn(2, 32, 2, 16) for _ in range(5)]
