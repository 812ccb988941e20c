import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Contrastive loss of sentences with the hardest negatives of the batch and a margin."""

    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(2.6))

    def forward(self, anchor, positive, negative):
        anchor, positive, negative = (F.normalize(each, dim=-1) for each in (anchor, positive, negative))
        own = (anchor * positive).sum(-1, keepdim=True)
        others = anchor @ torch.cat([positive, negative]).t()
        same = torch.eye(len(anchor), len(positive) + len(negative), dtype=torch.bool)
        too_near = others > own + 0.05
        others = others.masked_fill(same | too_near, float("-inf"))
        hardest = others.topk(8, -1).values
        logits = torch.cat([own, hardest], -1) * self.log_scale.exp()
        return F.cross_entropy(logits, torch.zeros(len(anchor), dtype=torch.long))


def get_inputs():
    return [torch.randn(48, 64), torch.randn(48, 64), torch.randn(48, 64)]
