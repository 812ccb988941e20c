import torch
from torch import nn


class Model(nn.Module):
    """GRPO over sequences: group advantages, ratio of a sequence, clipping, KL to the reference, masked."""

    def __init__(self, group=4, low=0.2, high=0.28, beta=0.04):
        super().__init__()
        self.group, self.low, self.high, self.beta = group, low, high, beta

    def forward(self, logits, tokens, old, reference, reward, mask):
        logp = logits.log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        grouped = reward.view(-1, self.group)
        advantage = ((grouped - grouped.mean(1, keepdim=True)) / (grouped.std(1, keepdim=True) + 1e-4)).view(-1, 1)
        length = mask.sum(-1).clamp(min=1)
        ratio = (((logp - old) * mask).sum(-1) / length).exp().unsqueeze(-1)
        clipped = ratio.clamp(1 - self.low, 1 + self.high)
        gain = torch.minimum(ratio * advantage, clipped * advantage)
        away = reference - logp
        kl = away.exp() - away - 1
        entropy = -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1)
        token = -(gain - self.beta * kl) * mask
        return token.sum() / mask.sum(), (entropy * mask).sum() / mask.sum(), (ratio != clipped).float().mean()


def get_inputs():
    mask = (torch.arange(24) < torch.randint(4, 25, (8, 1))).float()
    return [
        torch.randn(8, 24, 100),
        torch.randint(0, 100, (8, 24)),
        -torch.rand(8, 24) * 5,
        -torch.rand(8, 24) * 5,
        torch.rand(8),
        mask,
    ]
