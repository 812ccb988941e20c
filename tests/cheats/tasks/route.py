"""The two best of eight experts for each token, by scores among which many are equal."""

import torch


class Model(torch.nn.Module):
    def forward(self, scores):
        best = torch.topk(scores, 2)
        return best.values, best.indices


def get_inputs():
    return [torch.randint(0, 4, (4096, 8)).float()]
