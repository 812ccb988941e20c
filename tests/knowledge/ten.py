"""Ten more tasks, of models of 2023 to 2025, written down before any was tried."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from everyday import _randn
from ir_cases import Case
from torch import Tensor


def conformer_convolution(x: Tensor, wide: Tensor, deep: Tensor, norm: Tensor) -> Tensor:
    """Conformer's convolution module: gate, depthwise convolution, batch norm as trained, SiLU, and back."""
    channels = x.shape[-1]
    y = F.glu(F.conv1d(F.layer_norm(x, (channels,)).transpose(1, 2), wide[: 2 * channels, :, None]), 1)
    y = F.conv1d(y, deep, padding="same", groups=channels)
    y = F.silu(F.batch_norm(y, norm[0], norm[1].abs() + 0.1, norm[2], norm[3]))
    return x + F.conv1d(y, wide[2 * channels :, :, None]).transpose(1, 2)


def gated_delta(q: Tensor, k: Tensor, v: Tensor, gates: Tensor) -> Tensor:
    """Gated DeltaNet, step by step: what a state says of a key fades, and is corrected towards its value."""
    state, seen = q.new_zeros(q.shape[0], q.shape[1], q.shape[3], v.shape[3]), []
    q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
    for t in range(q.shape[2]):
        fade, rate = torch.exp(-F.softplus(gates[:, :, t, 0])), torch.sigmoid(gates[:, :, t, 1])
        state = state * fade[..., None, None]
        gap = v[:, :, t] - (state * k[:, :, t, :, None]).sum(-2)
        state = state + k[:, :, t, :, None] * (rate[..., None] * gap)[..., None, :]
        seen.append((state * q[:, :, t, :, None]).sum(-2))
    return torch.stack(seen, 2)


def _turned(x: Tensor, rates: Tensor) -> Tensor:
    angle = torch.arange(x.shape[-2])[:, None] * rates
    one, other = x.chunk(2, -1)
    return torch.cat((one * angle.cos() - other * angle.sin(), one * angle.sin() + other * angle.cos()), -1)


def latent_attention(x: Tensor, down: Tensor, up: Tensor, query: Tensor) -> Tensor:
    """DeepSeek's multi-head latent attention: a part of each head turns with its place, with a key that all share."""
    heads, plain, turning = 3, 6, 4
    rates = 1e4 ** (-torch.arange(0, turning, 2) / turning)
    latent, shared = (x @ down.t()).split((down.shape[0] - turning, turning), -1)
    latent = latent * torch.rsqrt(latent.square().mean(-1, keepdim=True) + 1e-6)
    k, v = (latent @ up.t()).unflatten(-1, (heads, -1)).transpose(1, 2).split((plain, plain), -1)
    q = (x @ query.t()).unflatten(-1, (heads, -1)).transpose(1, 2)
    q = torch.cat((q[..., :plain], _turned(q[..., plain:], rates)), -1)
    k = torch.cat((k, _turned(shared[:, None], rates).expand(-1, heads, -1, -1)), -1)
    made = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1 / math.sqrt(plain + turning))
    return made.transpose(1, 2).flatten(2)


def soft_capped(q: Tensor, k: Tensor, v: Tensor, scale: Tensor) -> Tensor:
    """Gemma: normalized queries and keys, scores capped by a tangent, and a window of keys."""
    q, k = (each * torch.rsqrt(each.square().mean(-1, keepdim=True) + 1e-6) * (1 + scale) for each in (q, k))
    scores = 50 * torch.tanh(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) / 50)
    far = torch.arange(q.shape[2])[:, None] - torch.arange(k.shape[2])
    return scores.masked_fill((far < 0) | (far >= 4), -torch.inf).softmax(-1) @ v


def stretched_rotary(x: Tensor, at: Tensor) -> Tensor:
    """YaRN: fast rates stay, slow ones are stretched, a ramp between them; scores grow a little."""
    half, stretch, base, known = x.shape[-1] // 2, 4.0, 1e4, 32
    low, high = (half * math.log(known / (turns * 2 * math.pi)) / math.log(base) for turns in (8, 1))
    rates = base ** (-torch.arange(half) / half)
    ramp = ((torch.arange(half) - max(math.floor(low), 0)) / (math.ceil(high) - max(math.floor(low), 0))).clamp(0, 1)
    angle = at[..., None] * (rates / stretch * ramp + rates * (1 - ramp))
    size = 0.1 * math.log(stretch) + 1
    cos, sin = (torch.cat((each, each), -1) * size for each in (angle.cos(), angle.sin()))
    one, other = x.chunk(2, -1)
    return x * cos + torch.cat((-other, one), -1) * sin


def relative_bias(scores: Tensor, table: Tensor) -> Tensor:
    """T5: a bias by distance, exact for near ones and by a logarithm beyond."""
    buckets, most = table.shape[0] // 2, 64
    far = torch.arange(scores.shape[-1])[None] - torch.arange(scores.shape[-2])[:, None]
    size, near = far.abs(), buckets // 2
    large = near + (torch.log(size.float() / near) / math.log(most / near) * (buckets - near)).long()
    bucket = (far > 0).long() * buckets + torch.where(size < near, size, large.clamp(max=buckets - 1))
    return (scores + table[bucket].permute(2, 0, 1)).softmax(-1)


def excited(x: Tensor, down: Tensor, up: Tensor) -> Tensor:
    """MobileNet's squeeze and excite, and the hard swish behind it."""
    share = F.adaptive_avg_pool2d(x, 1)
    share = F.hardsigmoid(F.conv2d(F.relu(F.conv2d(share, down[:, :, None, None])), up[:, :, None, None]))
    return F.hardswish(x * share)


def straight_through(x: Tensor, table: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A vector quantizer: the nearest of a table, what it costs, and how evenly the table is used."""
    flat = x.flatten(0, 1)
    gaps = flat.square().sum(1, keepdim=True) - 2 * flat @ table.t() + table.square().sum(1)
    place = gaps.argmin(1)
    used = F.one_hot(place, table.shape[0]).to(x.dtype)
    found = (used @ table).view_as(x)
    cost = F.mse_loss(found.detach(), x) * 0.25 + F.mse_loss(found, x.detach())
    share = used.mean(0)
    return x + (found - x).detach(), cost, torch.exp(-(share * torch.log(share + 1e-10)).sum())


def deformed(value: Tensor, offsets: Tensor, weights: Tensor) -> Tensor:
    """Deformable attention over two levels: a few places around each query's own, weighed."""
    sizes, heads = ((6, 5), (3, 4)), value.shape[2]
    own = torch.stack(torch.meshgrid(torch.linspace(0.1, 0.9, 2), torch.linspace(0.1, 0.9, 3), indexing="ij"), -1)
    at = own.flatten(0, 1)[:, None, None, None] + offsets * 0.1
    found = []
    for level, (part, size) in enumerate(zip(value.split([h * w for h, w in sizes], 1), sizes, strict=True)):
        image = part.permute(0, 2, 3, 1).reshape(-1, value.shape[3], *size)
        grid = (2 * at[:, :, :, level] - 1).transpose(1, 2).flatten(0, 1).to(value.dtype)
        found.append(F.grid_sample(image, grid, align_corners=False))
    share = weights.flatten(3).softmax(-1).transpose(1, 2).flatten(0, 1)[:, None]
    made = (torch.stack(found, -2).flatten(-2) * share).sum(-1)
    return made.unflatten(0, (-1, heads)).permute(0, 3, 1, 2).flatten(2)


def routed_by_groups(x: Tensor, gate: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """DeepSeek-V3's router: the best groups of experts by a bias, then the best experts, weighed without it."""
    score = (x @ gate.t()).sigmoid()
    biased = (score + bias).unflatten(-1, (4, -1))
    best = biased.topk(2, -1).values.sum(-1).topk(2, -1).indices
    open_ = torch.zeros(x.shape[0], 4).scatter(1, best, 1.0).bool()
    place = biased.masked_fill(~open_[..., None], -torch.inf).flatten(1).topk(3, -1).indices
    share = score.gather(1, place)
    return share / (share.sum(-1, keepdim=True) + 1e-20) * 2.5, place


TEN: dict[str, Case] = {
    "conformer convolution": Case(conformer_convolution, (_randn(2, 9, 6), _randn(18, 6), _randn(6, 1, 5),
                                                          _randn(4, 6))),
    "gated delta": Case(gated_delta, (_randn(2, 2, 12, 4), _randn(2, 2, 12, 4) + 1, _randn(2, 2, 12, 3),
                                      _randn(2, 2, 12, 2))),
    "latent attention": Case(latent_attention, (_randn(2, 7, 10), _randn(12, 10), _randn(36, 8), _randn(30, 10))),
    "soft capped": Case(soft_capped, (_randn(2, 2, 9, 6), _randn(2, 2, 9, 6) + 1, _randn(2, 2, 9, 5), _randn(6))),
    "stretched rotary": Case(stretched_rotary, (_randn(2, 3, 5, 16), torch.tensor([3, 4, 40, 41, 99]))),
    "relative bias": Case(relative_bias, (_randn(2, 3, 40, 44), _randn(16, 3))),
    "excited": Case(excited, (_randn(2, 8, 5, 6), _randn(4, 8), _randn(8, 4))),
    "straight through": Case(straight_through, (_randn(2, 6, 4), _randn(9, 4))),
    "deformed": Case(deformed, (_randn(2, 42, 2, 3), _randn(2, 6, 2, 2, 4, 2), _randn(2, 6, 2, 2, 4))),
    "routed by groups": Case(routed_by_groups, (_randn(5, 6), _randn(16, 6), _randn(16) * 0.1)),
}  # fmt: skip
