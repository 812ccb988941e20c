"""Forwards that only the compiler writes, or that it has another way for: each with its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F


class Case(NamedTuple):
    """A function and what it is called with."""

    function: Callable[..., Any]
    inputs: tuple[Any, ...]


def _randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def _whole(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(high))


def _sampled(mode: str, padding: str, aligned: bool) -> Case:
    """At points within an image and beyond it; none of them halfway between two elements, where rounding decides."""
    return Case(
        lambda x, grid: F.grid_sample(x, grid, mode, padding, align_corners=aligned), (IMAGE, 1.3 * _randn(2, 5, 4, 2))
    )


SORTED = torch.tensor([-1.5, -0.5, -0.5, 0.0, 0.25, 2.0, 3.5])
SOUGHT = torch.tensor([[-2.0, -0.5, 0.0, 0.1], [3.5, 4.0, torch.nan, torch.inf]])
X, IMAGE, VOLUME = _randn(5, 7), _randn(2, 3, 9, 7), _randn(2, 4, 5, 6, 7)

ODD = _randn(3, 19, 2)


def _some(x: torch.Tensor) -> torch.Tensor:
    """With NaN and infinities, and no two equal."""
    x = x.clone()
    x[0, 3] = torch.nan
    x[1, 0], x[1, 1] = torch.inf, -torch.inf
    return x


def _spotted(x: torch.Tensor) -> torch.Tensor:
    """With a NaN and infinities, of which an output that does not depend on them must not tell."""
    x = x.clone()
    x.view(-1)[:: x.numel() // 2] = torch.inf
    x.view(-1)[x.numel() // 3] = torch.nan
    return x


CASES: dict[str, Case] = {
    "cumsum": Case(lambda x: x.cumsum(1), (X,)),
    "cumsum first": Case(lambda x: x.cumsum(0) * 2, (X,)),
    "cumprod": Case(lambda x: x.cumprod(-1), (X,)),
    "cumsum reversed": Case(lambda x: x.flip(1).cumsum(1).flip(1), (X,)),
    "cumsum exclusive": Case(
        lambda x: torch.cumsum(torch.cat((torch.zeros_like(x.select(1, 0).unsqueeze(1)), x), 1), 1)[:, :-1], (X,)
    ),
    "cumsum masked": Case(lambda x, y: torch.cumsum(x * (y > 0), 1), (X, _randn(5, 7) + 0.1)),
    "cat": Case(lambda x, y: torch.cat((x, y.relu(), x), 1), (X, _randn(5, 3))),
    "stack": Case(lambda x, y: torch.stack((x, y), 1), (X, _randn(5, 7) + 1)),
    "stack of numbers": Case(
        lambda x: x[:, :3] * torch.stack([torch.scalar_tensor(each) for each in (1.5, -2.0, 4.0)]), (X,)
    ),
    "pad": Case(lambda x: F.pad(x, (1, 2, 0, 3), value=1.5) * 2, (X,)),
    "pad reflect": Case(lambda x: F.pad(x, (2, 3), mode="reflect"), (X,)),
    "pad circular": Case(lambda x: F.pad(x[None], (2, 3), mode="circular"), (X,)),
    "pad replicate": Case(lambda x: F.pad(x, (2, 3), mode="replicate"), (X,)),
    "roll": Case(lambda x: x.roll((2, -3), (0, 1)), (X,)),
    "roll flat": Case(lambda x: x.roll(4), (X,)),
    "tril": Case(lambda x: x.tril(-1), (X,)),
    "triu": Case(lambda x: torch.triu(x, 2), (X,)),
    "gather": Case(lambda x, y: x.gather(1, y), (X, _whole(7, 5, 4))),
    "index_select": Case(lambda x, y: x.index_select(1, y).tanh(), (X, _whole(7, 3))),
    "embedding": Case(lambda w, y: F.embedding(y, w), (X, _whole(5, 2, 3))),
    "index": Case(lambda x, y: x[:, y], (X, _whole(7, 2, 2))),
    "cdist": Case(torch.cdist, (_randn(2, 5, 3), _randn(2, 4, 3))),
    "cdist of broadcast batches": Case(lambda x, y: torch.cdist(x, y, 1.0), (_randn(3, 1, 5, 6), _randn(2, 4, 6))),
    "cdist of cubes": Case(lambda x, y: torch.cdist(x, y, 3.0) * 2, (_randn(5, 3), _randn(4, 3))),
    "cdist by the largest": Case(lambda x, y: torch.cdist(x, y, torch.inf), (_randn(5, 3), _randn(4, 3))),
    "grid": _sampled("bilinear", "zeros", False),
    "grid aligned": _sampled("bilinear", "zeros", True),
    "grid to the border": _sampled("bilinear", "border", False),
    "grid of nearest": _sampled("nearest", "zeros", True),
    "grid of nearest to the border": _sampled("nearest", "border", False),
    "affine grid": Case(lambda m: F.affine_grid(m, [2, 3, 5, 4], align_corners=False), (_randn(2, 2, 3),)),
    "affine grid aligned": Case(lambda m: F.affine_grid(m, [2, 3, 1, 4], align_corners=True), (_randn(2, 2, 3),)),
    "affine grid of a volume": Case(
        lambda m: F.affine_grid(m, [2, 1, 3, 4, 5], align_corners=True), (_randn(2, 3, 4),)
    ),
    "spatial transformer": Case(
        lambda x, m: F.grid_sample(x, F.affine_grid(m, [2, 3, 4, 6], align_corners=False), align_corners=False),
        (IMAGE, _randn(2, 2, 3)),
    ),
    "bucketize": Case(lambda x, b: torch.bucketize(x, b), (SOUGHT, SORTED)),
    "bucketize right": Case(lambda x, b: torch.bucketize(x, b, right=True, out_int32=True), (SOUGHT, SORTED)),
    "searchsorted": Case(
        lambda b, x: torch.searchsorted(b, x, side="right"), (torch.stack((SORTED, SORTED * 2)), SOUGHT)
    ),
    "one hot": Case(lambda y: F.one_hot(y, 6), (_whole(6, 3, 4),)),
    "repeat": Case(lambda x: x.repeat(2, 3) + 1, (X,)),
    "flip": Case(lambda x: x.flip(0, 1), (X,)),
    "slices": Case(lambda x: x[1:, ::2].t().reshape(-1)[3:], (X,)),
    "max pool": Case(lambda x: F.max_pool2d(x, 3, 2, 1), (IMAGE,)),
    "max pool dilated": Case(lambda x: F.max_pool2d(x, 2, 2, 1, dilation=2, ceil_mode=True), (IMAGE,)),
    "max pool 1d": Case(lambda x: F.max_pool1d(x, 4, 2, 2, dilation=1), (_randn(2, 3, 11),)),
    "max pool 3d": Case(lambda x: F.max_pool3d(x, 2, 2, 1, ceil_mode=True), (VOLUME,)),
    "avg pool": Case(lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (IMAGE,)),
    "avg pool inside": Case(lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (IMAGE,)),
    "avg pool 3d": Case(lambda x: F.avg_pool3d(x, 3, 2, 1), (VOLUME,)),
    "adaptive avg": Case(lambda x: F.adaptive_avg_pool2d(x, (4, 3)), (IMAGE,)),
    "adaptive max": Case(lambda x: F.adaptive_max_pool2d(x, (2, 7)), (IMAGE,)),
    "sum of all": Case(lambda x: x.sum(), (VOLUME,)),
    "norm of all": Case(lambda x: x / torch.norm(x), (X,)),
    "argmax of all": Case(lambda x: x.argmax(), (VOLUME,)),
    "max along": Case(lambda x: x.max(1), (VOLUME,)),
    "batch statistics": Case(lambda x: F.batch_norm(x, None, None, training=True), (IMAGE,)),
    "cross entropy": Case(lambda x, y: F.cross_entropy(x, y), (X, _whole(7, 5))),
    "cross entropy weighted": Case(
        lambda x, y, w: F.cross_entropy(x, y, w.abs(), ignore_index=2), (X, _whole(7, 5), _randn(7))
    ),
    "triplet": Case(lambda x, y, z: F.triplet_margin_loss(x, y, z), (X, _randn(5, 7) + 1, _randn(5, 7) - 1)),
    "cosine embedding": Case(
        lambda x, y, z: F.cosine_embedding_loss(x, y, z), (X, X + 1, torch.tensor([1.0, -1, 1, -1, 1]))
    ),
    "matmul": Case(lambda x, y: (x @ y).relu(), (_randn(2, 5, 7), _randn(7, 3))),
    "addmm of beta 0": Case(
        lambda c, x, y: torch.addmm(c, x, y, beta=0, alpha=3), (_randn(3) * torch.nan, X, _randn(7, 3))
    ),
    "einsum of one": Case(lambda x: torch.einsum("bij->jb", x), (_randn(2, 5, 7),)),
    "einsum of a diagonal": Case(lambda x, y: torch.einsum("bii,...i->...b", x, y), (_randn(2, 5, 5), _randn(3, 4, 5))),
    "einsum of broadcasts": Case(
        lambda x, y: torch.einsum("...ij,...jk->...ik", x, y), (_randn(3, 1, 5, 7), _randn(4, 7, 2))
    ),
    "einsum of products": Case(lambda x, y: torch.einsum("ij,ij->ij", x, y), (X, _randn(5, 7) + 1)),
    "einsum of three": Case(lambda x, y, z: torch.einsum("ij,jk,kl", x, y, z), (X, _randn(7, 3), _randn(3, 4))),
    "einsum of state spaces": Case(
        lambda a, b: torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", a, a + 1, b, a[..., :3] * 2),
        (_randn(2, 3, 4, 2, 5), _randn(2, 2, 3, 4, 4)),
    ),
    "einsum": Case(lambda x, y: torch.einsum("bij,kj->bki", x, y), (_randn(2, 5, 7), _randn(3, 7))),
    "linear": Case(lambda x, w, b: F.linear(x, w, b).sigmoid(), (X, _randn(3, 7), _randn(3))),
    "conv1d": Case(lambda x, w: F.conv1d(x, w, stride=2, dilation=2, padding=1), (_randn(2, 4, 13), _randn(6, 4, 3))),
    "conv2d": Case(lambda x, w, b: F.conv2d(x, w, b, padding=1).relu(), (IMAGE, _randn(5, 3, 3, 3), _randn(5))),
    "layers alike": Case(
        lambda x, v, w: F.conv2d(F.conv2d(x, v, padding=1).relu(), w, padding=1).relu(),
        (IMAGE, _randn(3, 3, 3, 3), -_randn(3, 3, 3, 3)),
    ),
    "conv2d same": Case(lambda x, w: F.conv2d(x, w, padding="same"), (IMAGE, _randn(4, 3, 2, 4))),
    "conv2d strided": Case(
        lambda x, w: F.conv2d(x, w, stride=(2, 1), padding=(0, 2), dilation=(1, 2)), (IMAGE, _randn(4, 3, 3, 2))
    ),
    "conv2d grouped": Case(lambda x, w: F.conv2d(x, w, groups=2), (_randn(2, 4, 6, 5), _randn(6, 2, 3, 3))),
    "conv2d depthwise": Case(lambda x, w: F.conv2d(x, w, groups=3, padding=1), (IMAGE, _randn(3, 1, 3, 3))),
    "conv3d": Case(lambda x, w: F.conv3d(x, w), (VOLUME, _randn(2, 4, 2, 3, 2))),
    "transposed 1d": Case(
        lambda x, w: F.conv_transpose1d(x, w, stride=2, dilation=3, padding=1),
        (_spotted(_randn(2, 3, 5)), _randn(3, 4, 3)),
    ),
    "transposed 2d": Case(
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
        (_spotted(IMAGE), _randn(3, 4, 3, 3)),
    ),
    "transposed grouped": Case(
        lambda x, w: F.conv_transpose2d(x, w, stride=(3, 2), groups=2),
        (_spotted(_randn(2, 4, 3, 5)), _randn(4, 3, 2, 5)),
    ),
    "transposed 3d": Case(lambda x, w: F.conv_transpose3d(x, w), (VOLUME, _randn(4, 2, 2, 3, 2))),
    "transposed 3d strided": Case(
        lambda x, w: F.conv_transpose3d(x, w, stride=(2, 3, 2), padding=1), (_spotted(VOLUME), _randn(4, 2, 3, 5, 4))
    ),
    "attention": Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        (_randn(2, 3, 5, 4), _randn(2, 3, 6, 4), _randn(2, 3, 6, 4)),
    ),
    "attention causal": Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (_randn(2, 3, 5, 4), _randn(2, 3, 5, 4) + 1, _randn(2, 3, 5, 4) - 1),
    ),
    "attention far apart": Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3),
        (_randn(2, 3, 5, 4) * 2**30, _randn(2, 3, 6, 4) * 2**30, _randn(2, 3, 6, 4)),
    ),
    "bilinear": Case(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (IMAGE,)),
    "bilinear aligned": Case(lambda x: F.interpolate(x, size=(4, 11), mode="bilinear", align_corners=True), (IMAGE,)),
    "smaller without steps": Case(lambda x: F.interpolate(x, size=(4, 5), mode="bilinear", antialias=True), (IMAGE,)),
    "by cubes without steps": Case(
        lambda x: F.interpolate(x, size=(3, 11), mode="bicubic", antialias=True), (_spotted(IMAGE),)
    ),
    "corners without steps": Case(
        lambda x: F.interpolate(x, size=(5, 3), mode="bicubic", align_corners=True, antialias=True), (IMAGE,)
    ),
    "a factor without steps": Case(
        lambda x: F.interpolate(
            x, scale_factor=(0.7, 1.3), mode="bilinear", antialias=True, recompute_scale_factor=False
        ),
        (IMAGE,),
    ),
    "nearest": Case(lambda x: F.interpolate(x, size=(5, 11)), (IMAGE,)),
    "im2col": Case(lambda x: F.unfold(x, 3, padding=1, stride=2), (IMAGE,)),
    "double": Case(lambda x: x.double().cumsum(1) + x.sum(), (X,)),
    "whole": Case(lambda y: torch.cat((y.cumsum(0), y.flip(0) // 2)), (_whole(9, 6, 3),)),
    "nothing": Case(lambda x: torch.cat((x, x)).sum(1), (_randn(0, 3),)),
    "nothing reduced": Case(lambda x: x.sum(1) + 1, (_randn(3, 0),)),
    "sort": Case(lambda x: x.sort(1), (_some(ODD),)),
    "sort of columns": Case(lambda x: torch.sort(x * 2, 0, descending=True), (_some(ODD),)),
    "sort of whole numbers": Case(lambda y: torch.sort(y, stable=True), (_whole(5, 4, 37),)),
    "argsort": Case(lambda x: torch.argsort(x, dim=1, descending=True, stable=True), (_some(ODD),)),
    "topk": Case(lambda x: x.softmax(1).topk(3), (_randn(5, 33),)),
    "topk of many": Case(lambda x: x.abs().topk(2), (_randn(1030, 5),)),
    "topk of the least": Case(lambda x: torch.topk(x, 2, 0, largest=False), (ODD,)),
    "gate of the first two": Case(
        lambda x: torch.zeros_like(x).scatter(1, x.topk(2, 1).indices, x.softmax(1).topk(2, 1).values), (_randn(9, 4),)
    ),
    "scatter on each other": Case(lambda x, y: x.scatter(0, y, x * 2), (X, _whole(5, 3, 7))),
    "gru cell": Case(
        lambda x, h, w: torch.gru_cell(x, h, w[:, :5], w[:, 5:9], w[:, 9], w[:, 10]),
        (_randn(3, 5), _randn(3, 4), _randn(12, 11)),
    ),
    "lstm cell": Case(
        lambda x, h, w: torch.lstm_cell(x, (h, h * 2), w[:, :5], w[:, 5:9], w[:, 9], w[:, 10]),
        (_randn(3, 5), _randn(3, 4), _randn(16, 11)),
    ),
    "rnn cell": Case(
        lambda x, h, w: torch.rnn_relu_cell(x, h, w[:, :5], w[:, 5:9]), (_randn(3, 5), _randn(3, 4), _randn(4, 9))
    ),
    "median": Case(lambda x: torch.median(x, 1), (_some(ODD),)),
    "median of all": Case(lambda x: x.median() + x, (ODD,)),
    "median of whole numbers": Case(lambda y: torch.median(y, 1).values, (_whole(50, 4, 6),)),
    "median of numbers": Case(lambda x: torch.nanmedian(x, 1, keepdim=True), (_some(ODD),)),
    "msort": Case(lambda x: torch.msort(x), (_some(ODD),)),
    "kth value": Case(lambda x: x.kthvalue(4, 1), (ODD,)),
    "kth value kept": Case(lambda x: x.kthvalue(2, 0, keepdim=True), (ODD,)),
    "one": Case(lambda x: F.pad(x, (0, 0)).cumsum(0).sum(), (_randn(1, 1),)),
}
