import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(32, 12))

    def forward(self, scores, pos):
        d = pos[:, None, :] - pos[:, :, None]
        n = d.abs()
        far = 8 + (torch.log(n.float().clamp_min(1.0) / 8) / 2.772588722239781 * 8).to(torch.int64)
        b = torch.where(n < 8, n, far.clamp_max(15)) + (d > 0).to(torch.int64) * 16
        return scores + self.table[b].permute(0, 3, 1, 2)


def get_inputs():
    return [torch.randn(4, 12, 160, 160), torch.randint(0, 500, (4, 160))]


def get_init_inputs():
    return []
