# The largest of a row by halving it.
# row: 63
# task: rowmax
# passes
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        while x.shape[1] > 1:
            half = (x.shape[1] + 1) // 2
            x = torch.maximum(x[:, :half], torch.cat([x[:, half:], x[:, :1]], dim=1)[:, :half]) if (
                x.shape[1] % 2
            ) else torch.maximum(x[:, :half], x[:, half:])
        return x.reshape(-1)
