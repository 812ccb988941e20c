"""GRPO's loss: rewards normalized within a prompt's group, clipped ratios of probabilities, a penalty for drifting."""

import torch
from torch import nn

GROUPS, EACH, LENGTH, WORDS = 4, 4, 24, 128


class Model(nn.Module):
    def forward(
        self, logits: torch.Tensor, tokens: torch.Tensor, before: torch.Tensor, anchor: torch.Tensor,
        rewards: torch.Tensor, lengths: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        chance = logits.log_softmax(-1).gather(-1, tokens[..., None]).squeeze(-1)
        grouped = rewards.view(GROUPS, EACH)
        gain = (grouped - grouped.mean(1, keepdim=True)) / (grouped.std(1, keepdim=True) + 1e-4)
        gain = gain.flatten()[:, None]
        ratio = (chance - before).exp()
        plain, clipped = ratio * gain, ratio.clamp(0.8, 1.28) * gain
        gap = anchor - chance
        drift = gap.exp() - gap - 1
        counts = (torch.arange(LENGTH, device=logits.device) < lengths[:, None]).to(logits.dtype)
        loss = (0.04 * drift - torch.minimum(plain, clipped)) * counts
        share = ((clipped < plain) * counts).sum() / counts.sum()
        return (loss.sum(1) / counts.sum(1)).mean(), share


def get_inputs() -> list[torch.Tensor]:
    rows = GROUPS * EACH
    before, anchor = (-5 + 0.3 * torch.randn(rows, LENGTH) for _ in range(2))
    return [torch.randn(rows, LENGTH, WORDS), torch.randint(WORDS, (rows, LENGTH)), before, anchor, torch.rand(rows),
            torch.randint(1, LENGTH + 1, (rows,))]  # fmt: skip


def get_init_inputs() -> list[object]:
    return []
