import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, q, k, v):
        scores = torch.tanh(q @ k.transpose(-1, -2) * 0.0625 / 50) * 50
        rows = torch.arange(q.shape[-2], device=q.device)
        scores = scores.masked_fill(rows[:, None] < rows, float("-inf"))
        return scores.softmax(-1, dtype=torch.float32).to(q.dtype) @ v


def get_inputs():
    return [torch.randn(4, 8, 1024, 128, dtype=torch.bfloat16) for _ in range(3)]


def get_init_inputs():
    return []
