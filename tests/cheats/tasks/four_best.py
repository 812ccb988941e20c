"""The four best of each row, zeros elsewhere. Many are equal."""

import torch


class Model(torch.nn.Module):
    def forward(self, x):
        best = torch.topk(x, 4)
        return torch.zeros_like(x).scatter(1, best.indices, best.values)


def get_inputs():
    return [torch.randint(1, 9, (128, 40)).float()]
