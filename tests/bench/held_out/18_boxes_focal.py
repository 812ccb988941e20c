import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """A detector's loss: sigmoid focal loss of classes and generalised IoU of the boxes that have one."""

    def forward(self, logits, boxes, target, wanted):
        classes = logits.shape[-1]
        hot = F.one_hot(target.clamp(max=classes - 1), classes) * (target < classes).unsqueeze(-1)
        hot = hot.to(logits.dtype)
        p = logits.sigmoid()
        ce = F.binary_cross_entropy_with_logits(logits, hot, reduction="none")
        pt = p * hot + (1 - p) * (1 - hot)
        alpha = 0.25 * hot + 0.75 * (1 - hot)
        there = (target < classes).float()
        count = there.sum().clamp(min=1)
        focal = (alpha * (1 - pt) ** 2 * ce).sum() / count
        low, high = torch.max(boxes[..., :2], wanted[..., :2]), torch.min(boxes[..., 2:], wanted[..., 2:])
        shared = (high - low).clamp(min=0).prod(-1)
        areas = [(each[..., 2:] - each[..., :2]).clamp(min=0).prod(-1) for each in (boxes, wanted)]
        union = areas[0] + areas[1] - shared
        first, last = torch.min(boxes[..., :2], wanted[..., :2]), torch.max(boxes[..., 2:], wanted[..., 2:])
        hull = (last - first).clamp(min=0).prod(-1)
        giou = shared / (union + 1e-6) - (hull - union) / (hull + 1e-6)
        return focal, ((1 - giou) * there).sum() / count


def get_inputs():
    low, other = torch.rand(2, 100, 2), torch.rand(2, 100, 2)
    return [
        torch.randn(2, 100, 20),
        torch.cat([low, low + torch.rand(2, 100, 2) + 0.1], -1),
        torch.randint(0, 21, (2, 100)),
        torch.cat([other, other + torch.rand(2, 100, 2) + 0.1], -1),
    ]
