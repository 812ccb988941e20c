"""Fifteen further tasks that people run, written down before any of them was tried: none is KernelBench's."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from everyday import _randn, _whole
from ir_cases import Case
from torch import Tensor


def grouped_queries(q: Tensor, k: Tensor, v: Tensor, fresh: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Decoding: one row a head is appended to both caches, and four query heads share two heads of keys."""
    k, v = torch.cat((k, fresh[:, 0]), 2), torch.cat((v, fresh[:, 1]), 2)
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True), k, v


def chunked_states(x: Tensor, rate: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Mamba-2 within chunks: decays between every two places of a chunk, and states handed on between chunks."""
    chunks = 3
    x, rate = x.unflatten(1, (chunks, -1)), rate.unflatten(1, (chunks, -1)).permute(0, 3, 1, 2)
    b, c = b.unflatten(1, (chunks, -1)), c.unflatten(1, (chunks, -1))
    total = rate.cumsum(-1)
    size = rate.shape[-1]
    apart = total[..., :, None] - total[..., None, :]
    decay = apart.masked_fill(~torch.ones(size, size, dtype=torch.bool).tril(), -torch.inf).exp()
    within = torch.einsum("bcln,bcsn,bhcls,bcshp->bclhp", c, b, decay, x)
    states = torch.einsum("bcln,bhcl,bclhp->bchpn", b, (total[..., -1:] - total).exp(), x)
    held, before = torch.zeros_like(states[:, 0]), []
    for chunk in range(chunks):
        before.append(held)
        held = held * total[:, :, chunk, -1].exp()[..., None, None] + states[:, chunk]
    across = torch.einsum("bcln,bchpn,bhcl->bclhp", c, torch.stack(before, 1), total.exp())
    return (within + across).flatten(1, 2)


def routed(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """A mixture of four experts, two a token, with weights that sum to one."""
    weight, chosen = (x @ gate).softmax(-1).topk(2, -1)
    weight = weight / weight.sum(-1, keepdim=True)
    share = torch.zeros_like(x @ gate).scatter(1, chosen, weight)
    each = torch.einsum("teh,ehd->ted", F.silu(torch.einsum("td,edh->teh", x, up)), down)
    return (each * share[..., None]).sum(1)


def quantile_loss(x: Tensor, y: Tensor, levels: Tensor) -> Tensor:
    """The pinball loss of forecasts at several levels, where the target is known."""
    gap = y[..., None] - x
    loss = torch.maximum(levels * gap, (levels - 1) * gap).mean(-1)
    known = ~torch.isnan(y)
    return torch.where(known, loss, 0.0).sum() / known.sum()


def drawn_token(logits: Tensor, uniform: Tensor) -> Tensor:
    """Top-k sampling of one token a row, by numbers that are given."""
    best, token = (logits / 0.7).topk(8, -1)
    place = torch.searchsorted(best.softmax(-1).cumsum(-1), uniform[:, None]).clamp(max=7)
    return token.gather(1, place)[:, 0]


def faded_boxes(boxes: Tensor, score: Tensor) -> Tensor:
    """Matrix NMS: every box's score fades by its overlap with better ones, as far as those are not faded themselves."""
    boxes, order = boxes[score.argsort(descending=True)], score.sort(descending=True).values
    low, high = torch.maximum(boxes[:, None, :2], boxes[:, :2]), torch.minimum(boxes[:, None, 2:], boxes[:, 2:])
    both = (high - low).clamp(min=0).prod(-1)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    overlap = (both / (area[:, None] + area - both)).triu(1)
    most = overlap.max(0).values
    return order * (torch.exp(-2 * overlap**2) / torch.exp(-2 * most[:, None] ** 2)).min(0).values


def merged_patches(x: Tensor, scale: Tensor, weight: Tensor) -> Tensor:
    """Swin's way down: four neighbours become one patch of twice the channels."""
    x = torch.cat((x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]), -1)
    return F.linear(F.layer_norm(x, x.shape[-1:], scale), weight)


def biased_windows(qkv: Tensor, table: Tensor, mask: Tensor) -> Tensor:
    """Swin's attention in windows: a bias a head by where the two places lie, and a mask of what a shift tore apart."""
    side = 3
    q, k, v = qkv.unbind(2)
    grid = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")).flatten(1)
    gap = (grid[:, :, None] - grid[:, None]).permute(1, 2, 0) + side - 1
    bias = table[(gap[..., 0] * (2 * side - 1) + gap[..., 1]).flatten()].unflatten(0, (side**2, side**2))
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT + bias.permute(2, 0, 1)
    scores = (scores.unflatten(0, (-1, mask.shape[0])) + mask[:, None]).flatten(0, 1)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def streamed(x: Tensor, state: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """A causal depthwise convolution with SiLU, piece by piece: the last places go on to the next call."""
    both = torch.cat((state, x), -1)
    return F.silu(F.conv1d(both, weight, bias, groups=weight.shape[0])), both[..., -state.shape[-1] :]


def gated_norm(x: Tensor, gate: Tensor, weight: Tensor) -> Tensor:
    """Mamba-2's norm behind its gate, by groups, in the type of the residual."""
    y = (x * F.silu(gate)).float().unflatten(-1, (2, -1))
    y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5)
    return (y.flatten(-2) * weight.float()).to(x.dtype)


def modulated(x: Tensor, time: Tensor, weight: Tensor) -> Tensor:
    """A diffusion transformer's adaptive norm: shift, scale and gate from the step's embedding."""
    rates = torch.exp(-math.log(10000) * torch.arange(0, 4) / 4)
    angle = (time[:, None].float() * rates).to(x.dtype)
    shift, scale, gate = F.linear(F.silu(torch.cat((angle.cos(), angle.sin()), -1)), weight)[:, None].chunk(3, -1)
    return x + gate * (F.layer_norm(x, x.shape[-1:]) * (1 + scale) + shift)


def finite_codes(z: Tensor, levels: Tensor) -> tuple[Tensor, Tensor]:
    """Finite scalar quantization: each channel to its few levels, and one number for the whole code."""
    half = (levels - 1) / 2
    code = (torch.tanh(z) * half).round()
    basis = torch.cumprod(torch.cat((torch.ones(1, dtype=torch.int64), levels[:-1])), 0)
    return code / half, ((code + half).long() * basis).sum(-1)


def similarity(x: Tensor, y: Tensor) -> Tensor:
    """SSIM under a Gaussian window."""
    line = torch.exp(-((torch.arange(5) - 2.0) ** 2) / 4.5)
    line = line / line.sum()
    window = torch.outer(line, line).to(x.dtype).expand(x.shape[1], 1, 5, 5)
    mean, other = (F.conv2d(each, window, groups=x.shape[1]) for each in (x, y))
    square, crossed, others = (F.conv2d(each, window, groups=x.shape[1]) for each in (x * x, x * y, y * y))
    top = (2 * mean * other + 1e-4) * (2 * (crossed - mean * other) + 9e-4)
    return (top / ((mean**2 + other**2 + 1e-4) * (square - mean**2 + others - other**2 + 9e-4))).mean((1, 2, 3))


def decomposed_weight(x: Tensor, weight: Tensor, low: Tensor, size: Tensor) -> Tensor:
    """DoRA: a low-rank change turns the weight, whose rows have lengths of their own."""
    turned = weight + 2.0 * (low[: weight.shape[0], :, 0] @ low[:, :, 1].t())
    return F.linear(x, size[:, None] * turned / turned.norm(dim=1, keepdim=True))


def accepted(draft: Tensor, target: Tensor, tokens: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Speculative decoding: how many drafted tokens stay, and from what the next is drawn."""
    p = target.softmax(-1)
    q = draft.softmax(-1)
    chosen = tokens[..., None]
    ratio = (p[:, :-1].gather(-1, chosen) / q.gather(-1, chosen))[..., 0]
    kept = (uniform < ratio).int().cumprod(1).sum(1)
    rest = (p[:, :-1] - q).clamp(min=0)
    rest = torch.cat((rest / rest.sum(-1, keepdim=True), p[:, -1:]), 1)
    return kept, rest.gather(1, kept[:, None, None].expand(-1, 1, p.shape[-1]).long())[:, 0]


_WITH_GAPS = torch.where(_randn(3, 6) > 1, math.nan, _randn(3, 6))
FIFTEEN: dict[str, Case] = {
    "grouped queries": Case(grouped_queries, (_randn(2, 4, 1, 8), _randn(2, 2, 9, 8), _randn(2, 2, 9, 8) + 1,
                                              _randn(2, 2, 2, 1, 8))),
    "chunked states": Case(chunked_states, (_randn(2, 12, 3, 5), -_randn(2, 12, 3).abs(), _randn(2, 12, 4),
                                            _randn(2, 12, 4) * 2)),
    "routed": Case(routed, (_randn(6, 8), _randn(8, 4), _randn(4, 8, 10), _randn(4, 10, 8))),
    "quantile loss": Case(quantile_loss, (_randn(3, 6, 3), _WITH_GAPS, torch.tensor([0.1, 0.5, 0.9]))),
    "drawn token": Case(drawn_token, (_randn(4, 60) * 2, torch.tensor([0.02, 0.4, 0.71, 0.99]))),
    "faded boxes": Case(faded_boxes, (_randn(9, 2).abs().repeat(1, 2).cumsum(1), _randn(9).abs())),
    "merged patches": Case(merged_patches, (_randn(2, 4, 6, 5), _randn(20), _randn(10, 20))),
    "biased windows": Case(biased_windows, (_randn(4, 2, 3, 9, 8), _randn(25, 2),
                                            torch.where(_randn(2, 9, 9) > 1, -100.0, 0.0))),
    "streamed": Case(streamed, (_randn(2, 6, 5), _randn(2, 6, 3), _randn(6, 1, 4), _randn(6))),
    "gated norm": Case(gated_norm, (_randn(3, 5, 16).bfloat16(), _randn(3, 5, 16).bfloat16() * 2,
                                    _randn(16).bfloat16())),
    "modulated": Case(modulated, (_randn(2, 5, 6), torch.tensor([3, 700]), _randn(18, 8))),
    "finite codes": Case(finite_codes, (_randn(2, 6, 4), torch.tensor([7, 5, 5, 3]))),
    "similarity": Case(similarity, (_randn(2, 3, 9, 8), _randn(2, 3, 9, 8) * 0.9)),
    "decomposed weight": Case(decomposed_weight, (_randn(3, 8), _randn(6, 8), _randn(8, 2, 2), _randn(6).abs())),
    "accepted": Case(accepted, (_randn(3, 4, 11), _randn(3, 5, 11) * 1.5, _whole(11, 3, 4), _randn(3, 4).sigmoid())),
}  # fmt: skip
