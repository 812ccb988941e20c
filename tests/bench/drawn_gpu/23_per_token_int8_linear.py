import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, weight, scales):
        top = x.float().abs().amax(-1, keepdim=True).clamp(min=1e-5) / 127
        codes = (x.float() / top).round().clamp(-127, 127)
        return (codes @ weight.float().T * top * scales).to(x.dtype)


def get_inputs():
    weight = torch.randint(-127, 128, (4096, 4096), dtype=torch.int8)
    return [torch.randn(2048, 4096, dtype=torch.bfloat16), weight, torch.rand(4096) * 0.01]


def get_init_inputs():
    return []
