import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, scores, bias):
        s = 50.0 * torch.tanh((scores + bias) / 50.0)
        return torch.softmax(s, dim=-1)


def get_inputs():
    return [torch.randn(4, 16, 144, 144) * 2, torch.randn(16, 144, 144)]


def get_init_inputs():
    return []
