"""Thirty small tasks that people run, chosen before the lowerings that they need: none is KernelBench's."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from ir_cases import Case
from torch import Tensor


def _randn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + 7))


def _whole(high: int, *shape: int) -> Tensor:
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(high + len(shape)))


def cache_written(cache: Tensor, k: Tensor, q: Tensor, at: Tensor) -> Tensor:
    """One step of decoding: the new key goes to its place in the cache, and the query meets all keys."""
    cache = cache.index_copy(2, at, k)
    seen = torch.arange(cache.shape[2]) <= at
    scores = (q @ cache.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(~seen, -torch.inf)
    return scores.softmax(-1) @ cache


def cache_assigned(cache: Tensor, k: Tensor, at: Tensor) -> Tensor:
    """The same by an assignment, as static caches write."""
    cache = cache.clone()
    cache[:, :, at] = k
    return cache * 0.5


def top_p(logits: Tensor) -> Tensor:
    """Nucleus sampling's filter: the tail beyond 0.9 of the probability is removed, in the tokens' own order."""
    ordered, places = logits.sort(-1, descending=True)
    gone = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1) > 0.9
    return logits.masked_fill(torch.zeros_like(gone).scatter(-1, places, gone), -torch.inf)


def repetition_penalty(logits: Tensor, tokens: Tensor) -> Tensor:
    score = logits.gather(1, tokens)
    return logits.scatter(1, tokens, torch.where(score < 0, score * 1.3, score / 1.3))


def beam_step(scores: Tensor, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The best four continuations of four beams: their scores, where they come from, and their tokens."""
    total = scores[:, :, None] + logits.log_softmax(-1)
    best, flat = total.flatten(1).topk(4)
    return best, flat // logits.shape[-1], flat % logits.shape[-1]


def rotary(x: Tensor, at: Tensor) -> Tensor:
    rates = 1e4 ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    angle = torch.outer(at.float(), rates).repeat(1, 2)
    one, other = x.chunk(2, -1)
    return x * angle.cos() + torch.cat((-other, one), -1) * angle.sin()


def rotary_complex(x: Tensor, angle: Tensor) -> Tensor:
    """As Llama's first code has it: pairs of neighbours are complex numbers."""
    turned = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angle), angle)
    return torch.view_as_real(turned).flatten(-2)


def int4_linear(x: Tensor, packed: Tensor, scale: Tensor) -> Tensor:
    """Two weights a byte, a scale for each group of four columns."""
    weight = torch.stack((packed & 0xF, packed >> 4), -1).flatten(1).float() - 8
    weight = (weight.unflatten(1, (-1, 4)) * scale[..., None]).flatten(1)
    return x @ weight.t()


def int8_dynamic(x: Tensor) -> tuple[Tensor, Tensor]:
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-8) / 127
    return (x / scale).round().clamp(-128, 127).to(torch.int8), scale


def smoothed_loss(x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(x, y, label_smoothing=0.1)


def bags(table: Tensor, index: Tensor, offsets: Tensor) -> Tensor:
    """A recommender's sparse features: bags of several lengths."""
    return F.embedding_bag(index, table, offsets, mode="mean")


def interactions(dense: Tensor, sparse: Tensor) -> Tensor:
    """DLRM: every two features' dot product, once each."""
    both = torch.cat((dense[:, None], sparse), 1)
    row, column = torch.tril_indices(both.shape[1], both.shape[1], -1)
    return torch.cat((dense, (both @ both.mT)[:, row, column]), 1)


def mean_of_neighbours(x: Tensor, edges: Tensor) -> Tensor:
    """A layer of GraphSAGE."""
    total = torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])
    degree = torch.zeros(x.shape[0]).scatter_add(0, edges[1], torch.ones(edges.shape[1]))
    return torch.cat((x, total / degree.clamp(min=1)[:, None]), 1)


def softmax_over_edges(score: Tensor, target: Tensor, nodes: Tensor) -> Tensor:
    """Graph attention: a softmax over the edges that meet in a node."""
    most = torch.zeros(nodes.shape[0], dtype=score.dtype).scatter_reduce(0, target, score, "amax", include_self=False)
    power = (score - most[target]).exp()
    total = torch.zeros(nodes.shape[0], dtype=score.dtype).scatter_add(0, target, power)
    share = power / total[target]
    return torch.zeros_like(nodes).index_add(0, target, share[:, None] * nodes[target.flip(0)])


def neighbours(points: Tensor) -> Tensor:
    """Edge features of the nearest three in a cloud of points (DGCNN)."""
    near = torch.cdist(points, points).topk(3, largest=False).indices
    chosen = points.gather(1, near.flatten(1)[..., None].expand(-1, -1, 3)).unflatten(1, (-1, 3))
    here = points[:, :, None].expand_as(chosen)
    return torch.cat((chosen - here, here), -1)


def shifted_windows(x: Tensor) -> Tensor:
    """Swin: windows of a rolled image attend within themselves, and go back."""
    b, h, w, c = x.shape
    windows = x.roll((-1, -1), (1, 2)).view(b, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, c)
    mixed = (windows @ windows.mT).softmax(-1) @ windows
    return mixed.view(b, h // 2, w // 2, 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(x.shape).roll((1, 1), (1, 2))


def shuffled_channels(x: Tensor, w: Tensor) -> Tensor:
    """ShuffleNet's unit, behind a pixel unshuffle."""
    return F.conv2d(F.channel_shuffle(F.pixel_unshuffle(x, 2), 3), w, groups=3).relu()


def resized_positions(grid: Tensor) -> Tensor:
    """Position embeddings of a vision transformer at another resolution."""
    wide = F.interpolate(grid.permute(0, 3, 1, 2), size=(6, 5), mode="bicubic", antialias=False)
    return wide.permute(0, 2, 3, 1).flatten(1, 2)


def weight_normed(x: Tensor, v: Tensor, g: Tensor) -> Tensor:
    """WaveNet: gates behind a causal convolution whose weight is a direction and a length."""
    one, other = F.conv1d(F.pad(x, (4, 0)), torch._weight_norm(v, g, 0), dilation=2).chunk(2, 1)
    return one.tanh() * other.sigmoid()


def spectral_linear(x: Tensor, w: Tensor, u: Tensor) -> Tensor:
    """One step of power iteration, and the weight by its largest singular value."""
    v = F.normalize(w.t() @ u, dim=0)
    u = F.normalize(w @ v, dim=0)
    return F.linear(x, w / torch.vdot(u, w @ v))


def focal(x: Tensor, y: Tensor) -> Tensor:
    loss = F.binary_cross_entropy_with_logits(x, y, reduction="none")
    right = torch.where(y > 0.5, x.sigmoid(), 1 - x.sigmoid())
    return (torch.where(y > 0.5, 0.25, 0.75) * (1 - right) ** 2 * loss).mean()


def contrastive(image: Tensor, text: Tensor) -> Tensor:
    """CLIP's loss, over both directions."""
    scores = F.normalize(image, dim=-1) @ F.normalize(text, dim=-1).t() * math.exp(2.0)
    target = torch.arange(scores.shape[0])
    return (F.cross_entropy(scores, target) + F.cross_entropy(scores.t(), target)) / 2


def overlaps(one: Tensor, other: Tensor) -> Tensor:
    """Generalized overlap of every two boxes."""
    low, high = torch.maximum(one[:, None, :2], other[:, :2]), torch.minimum(one[:, None, 2:], other[:, 2:])
    both = (high - low).clamp(min=0).prod(-1)
    areas = [(each[:, 2:] - each[:, :2]).prod(-1) for each in (one, other)]
    union = areas[0][:, None] + areas[1] - both
    hull = torch.maximum(one[:, None, 2:], other[:, 2:]) - torch.minimum(one[:, None, :2], other[:, :2])
    return both / union - (hull.prod(-1) - union) / hull.prod(-1)


def quantized_vectors(x: Tensor, book: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A vector-quantized autoencoder's bottleneck, with how often each code is used."""
    code = torch.cdist(x, book).argmin(-1)
    return F.embedding(code, book), code, torch.bincount(code.flatten(), minlength=book.shape[0])


def running_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Over what a mask leaves."""
    return (x * mask).cumsum(1) / mask.cumsum(1).clamp(min=1)


def advantages(reward: Tensor, value: Tensor, ratio: Tensor) -> Tensor:
    """PPO's clipped loss on discounted returns."""
    fade = 0.9 ** torch.arange(reward.shape[1])
    returns = (reward * fade).flip(1).cumsum(1).flip(1) / fade
    gain = (returns - value - (returns - value).mean()) / (returns - value).std()
    return -torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()


def rendered(density: Tensor, colour: Tensor, depth: Tensor) -> Tensor:
    """NeRF: colours along a ray by what light comes through."""
    gap = torch.diff(depth, dim=-1, append=depth[:, -1:] + 1e3)
    opaque = 1 - torch.exp(-density.relu() * gap)
    through = torch.cumprod(torch.cat((torch.ones_like(opaque[:, :1]), 1 - opaque + 1e-10), -1), -1)[:, :-1]
    return ((opaque * through)[..., None] * colour).sum(1)


def counts_likelihood(mean: Tensor, shape: Tensor, y: Tensor) -> Tensor:
    """DeepAR: a negative binomial's negative logarithm."""
    logs = torch.lgamma(y + shape) - torch.lgamma(shape) - torch.lgamma(y + 1)
    return -(logs + shape * (shape / (shape + mean)).log() + y * (mean / (shape + mean)).log()).sum()


def transported(cost: Tensor) -> Tensor:
    """Sinkhorn's iterations in logarithms."""
    score = -cost / 0.5
    row, column = torch.zeros(cost.shape[0]), torch.zeros(cost.shape[1])
    for _ in range(3):
        row = -torch.logsumexp(score + column, 1)
        column = -torch.logsumexp(score + row[:, None], 0)
    return (score + row[:, None] + column).exp()


def biased_by_distance(q: Tensor, k: Tensor, table: Tensor) -> Tensor:
    """T5: the distance's bucket, half of them exact and the rest logarithmic, picks a bias a head."""
    gap = (torch.arange(q.shape[2])[:, None] - torch.arange(k.shape[2])).clamp(min=0)
    far = 4 + (torch.log(gap.clamp(min=1).float() / 4) / math.log(16 / 4) * 4).long()
    bucket = torch.where(gap < 4, gap, far.clamp(max=7))
    return (q @ k.mT + F.embedding(bucket, table).permute(2, 0, 1)).softmax(-1)


_DIRECTIONS = _randn(6, 3, 3)
TASKS: dict[str, Case] = {
    "cache written": Case(cache_written, (_randn(2, 3, 8, 4), _randn(2, 3, 1, 4), _randn(2, 3, 1, 4) * 2,
                                          torch.tensor([5]))),
    "cache assigned": Case(cache_assigned, (_randn(2, 3, 8, 4), _randn(2, 3, 2, 4), torch.tensor([5, 2]))),
    "top p": Case(top_p, (_randn(3, 50) * 3,)),
    "repetition penalty": Case(repetition_penalty, (_randn(2, 40), _whole(40, 2, 24))),
    "beam step": Case(beam_step, (_randn(2, 4), _randn(2, 4, 30))),
    "rotary": Case(rotary, (_randn(2, 3, 5, 8), torch.arange(5))),
    "rotary complex": Case(rotary_complex, (_randn(2, 5, 8), _randn(5, 4))),
    "int4 linear": Case(int4_linear, (_randn(3, 16), _whole(256, 6, 8).to(torch.uint8), _randn(6, 4))),
    "int8 dynamic": Case(int8_dynamic, (_randn(5, 16),)),
    "smoothed loss": Case(smoothed_loss, (_randn(6, 10), _whole(10, 6))),
    "bags": Case(bags, (_randn(12, 4), _whole(12, 9), torch.tensor([0, 3, 3, 7]))),
    "interactions": Case(interactions, (_randn(3, 4), _randn(3, 5, 4))),
    "mean of neighbours": Case(mean_of_neighbours, (_randn(6, 4), _whole(6, 2, 14))),
    "softmax over edges": Case(softmax_over_edges, (_randn(14), _whole(6, 14), _randn(6, 4))),
    "neighbours": Case(neighbours, (_randn(2, 7, 3),)),
    "shifted windows": Case(shifted_windows, (_randn(2, 4, 6, 5),)),
    "shuffled channels": Case(shuffled_channels, (_randn(2, 3, 4, 6), _randn(6, 4, 1, 1))),
    "resized positions": Case(resized_positions, (_randn(1, 4, 4, 3),)),
    "weight normed": Case(weight_normed, (_randn(2, 3, 9), _DIRECTIONS, _randn(6, 1, 1))),
    "spectral linear": Case(spectral_linear, (_randn(3, 5), _randn(4, 5), _randn(4))),
    "focal": Case(focal, (_randn(4, 9), _whole(2, 4, 9).float())),
    "contrastive": Case(contrastive, (_randn(5, 8), _randn(5, 8) + 1)),
    "overlaps": Case(overlaps, (_randn(4, 2).abs().repeat(1, 2).cumsum(1), _randn(3, 2).abs().repeat(1, 2).cumsum(1))),
    "quantized vectors": Case(quantized_vectors, (_randn(2, 6, 4), _randn(8, 4))),
    "running mean": Case(running_mean, (_randn(3, 300), (_randn(3, 300) > 0.2).float())),
    "advantages": Case(advantages, (_randn(3, 20), _randn(3, 20) + 1, _randn(3, 20).exp())),
    "rendered": Case(rendered, (_randn(4, 9), _randn(4, 9, 3), _randn(4, 9).abs().cumsum(1))),
    "counts likelihood": Case(counts_likelihood, (_randn(4, 6).exp(), _randn(4, 6).exp() + 0.1,
                                                  _whole(9, 4, 6).float())),
    "transported": Case(transported, (_randn(5, 6).abs(),)),
    "biased by distance": Case(biased_by_distance, (_randn(2, 3, 20, 4), _randn(2, 3, 20, 4) * 2, _randn(8, 3))),
}  # fmt: skip
