import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Mamba2's chunked scan (SSD), a loop over chunks that changes its state in place."""

    def __init__(self, heads=4, chunk=16):
        super().__init__()
        self.chunk = chunk
        self.a_log = nn.Parameter(torch.rand(heads))
        self.skip = nn.Parameter(torch.ones(heads))

    def forward(self, x, dt, b, c):
        n, length, heads, p = x.shape
        dt = F.softplus(dt)
        a = -self.a_log.exp() * dt
        state = x.new_zeros(n, heads, p, b.shape[-1])
        outs = []
        for start in range(0, length, self.chunk):
            part = slice(start, start + self.chunk)
            al = a[:, part].cumsum(1)
            decay = (al.unsqueeze(2) - al.unsqueeze(1)).exp().permute(0, 3, 1, 2).tril()
            scores = torch.einsum("bls,bms->blm", c[:, part], b[:, part]).unsqueeze(1) * decay
            within = torch.einsum("bhlm,bmhp->blhp", scores, x[:, part] * dt[:, part].unsqueeze(-1))
            before = torch.einsum("bls,bhps->blhp", c[:, part], state) * al.exp().unsqueeze(-1)
            outs.append(within + before)
            left = (al[:, -1:] - al).exp() * dt[:, part]
            state.mul_(al[:, -1].exp()[:, :, None, None])
            state.add_(torch.einsum("blh,bls,blhp->bhps", left, b[:, part], x[:, part]))
        return torch.cat(outs, 1) + x * self.skip[:, None]


def get_inputs():
    return [torch.randn(2, 128, 4, 16), torch.randn(2, 128, 4) - 2, torch.randn(2, 128, 16), torch.randn(2, 128, 16)]
