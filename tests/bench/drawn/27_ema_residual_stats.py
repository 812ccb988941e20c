import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x, running_mean, running_var):
        mean = x.mean((0, 2, 3))
        var = x.var((0, 2, 3), unbiased=False)
        m = 0.9 * running_mean + 0.1 * mean
        v = 0.9 * running_var + 0.1 * var
        y = (x - mean[:, None, None]) * torch.rsqrt(var[:, None, None] + 1e-5)
        return F.hardswish(y), m, v


def get_inputs():
    return [torch.randn(8, 40, 45, 53), torch.zeros(40), torch.ones(40)]


def get_init_inputs():
    return []
