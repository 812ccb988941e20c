import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, gates, x):
        a = F.logsigmoid(gates).cumsum(1)
        return torch.exp(a - a[:, -1:]) * torch.tanh(x)


def get_inputs():
    return [torch.randn(16, 400, 260), torch.randn(16, 400, 260)]


def get_init_inputs():
    return []
