import torch
import torch.nn as nn


def rms(x, weight):
    y = x.float()
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


def turned(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = (nn.Parameter(torch.rand(128, dtype=torch.bfloat16) + 0.5) for _ in range(2))

    def forward(self, qkv, cos, sin):
        q, k, v = qkv.unflatten(-1, (32, 128)).transpose(1, 2).split((16, 8, 8), dim=1)
        return turned(rms(q, self.q), cos, sin), turned(rms(k, self.k), cos, sin), v.contiguous()


def get_inputs():
    angles = torch.outer(torch.arange(2048.0), 10000 ** -(torch.arange(64) / 64)).repeat(1, 2)
    return [torch.randn(4, 2048, 4096, dtype=torch.bfloat16), angles.cos().bfloat16(), angles.sin().bfloat16()]


def get_init_inputs():
    return []
