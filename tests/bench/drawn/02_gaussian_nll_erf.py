import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, mu, logvar, y):
        z = (y - mu) * torch.exp(-0.5 * logvar)
        cdf = 0.5 * (1 + torch.erf(z * 0.7071067811865476))
        return (0.5 * (logvar + z * z) - torch.log(cdf.clamp_min(1e-4))).mean()


def get_inputs():
    return [torch.randn(1000, 999), torch.randn(1000, 999), torch.randn(1000, 999)]


def get_init_inputs():
    return []
