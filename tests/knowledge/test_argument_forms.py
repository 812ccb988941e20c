"""Calls of PyTorch's functions in every form that their schemas allow mean what PyTorch computes.

Optional arguments are left out, given by position or by name; dimensions count from either end; operands are inputs or
constants that the forward makes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from ir_evaluation import meaning
from schemas_of_torch import text
from traced import assert_close, trace

from knowledge.compiler.ir.expressions import UnwritableError
from knowledge.compiler.lower.schemas import FILE
from knowledge.compiler.passes.staging import staged

ROWS, COLUMNS = 6, 8
LEFT_OUT = object()
DIMS = st.sampled_from((0, 1, -1, -2))
FLAGS, SHIFTS = st.booleans(), st.integers(-3, 3)
REDUCTIONS = st.sampled_from(("mean", "sum", "none"))
FACTORS = st.sampled_from((0.25, 0.5, 1.5, 2.0))


def _randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


X, Y, IMAGE = _randn(ROWS, COLUMNS), _randn(ROWS, COLUMNS) + 0.1, _randn(2, 3, 7, 8)
WEIGHT, BIAS, WEIGHTS = _randn(COLUMNS), _randn(COLUMNS) * 2, _randn(3, 3, 3, 3)
PLACES = torch.tensor([[0, 2, 5, 5, 1, 0, 3, 2], [1, 1, 4, 0, 5, 2, 2, 0]])
PICKS = torch.tensor([3, 0, 3, 5])
CLASSES = torch.tensor([1, 0, 7, 3, 2, 5])


class At(NamedTuple):
    """An argument that is the call's tensor of this number."""

    number: int


class Call(NamedTuple):
    """A function, its tensors, and its further arguments: name -> values to draw.

    The first `required` of these are never left out. All tensors but those that a further argument names are operands.
    """

    function: Callable[..., Any]
    tensors: tuple[torch.Tensor, ...]
    further: dict[str, st.SearchStrategy[Any]]
    required: int = 0
    operands: int = 9


def _padded(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return F.pad(x, (1, 2), *args, **kwargs)


def _images_padded(x: torch.Tensor, mode: str) -> torch.Tensor:
    return F.pad(x, (1, 2, 0, 3), mode)


def _scattered(name: str) -> Callable[..., torch.Tensor]:
    def function(base: torch.Tensor, source: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return getattr(base, name)(0, index, source[:2])

    return function


def _index_added(base: torch.Tensor, source: torch.Tensor, index: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    return base.index_add(0, index, source[:4], **kwargs)


def _put(base: torch.Tensor, source: torch.Tensor, index: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return base.index_put((index,), source[:4], *args, **kwargs)


def _assigned(image: torch.Tensor, source: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Indices around a dimension that stays: their own comes first."""
    image = image.clone()
    image[index % 2, :, index] = source[:4, :3, None] + image[0, 0, 0]
    return image


DIM, KEPT = {"dim": DIMS}, {"keepdim": FLAGS}
CALLS: dict[str, Call] = {
    "pad": Call(_padded, (X,), {"mode": st.just("constant"), "value": FACTORS}),
    "pad of images": Call(_images_padded, (IMAGE,), {
        "mode": st.sampled_from(("constant", "reflect", "replicate", "circular"))}, 1),
    "sum": Call(torch.sum, (X,), DIM | KEPT, 1),
    "mean": Call(torch.mean, (X,), DIM | KEPT, 1),
    "prod": Call(torch.prod, (X,), DIM | KEPT, 1),
    "amax": Call(torch.amax, (X,), DIM | KEPT),
    "argmax": Call(torch.argmax, (X,), DIM | KEPT),
    "logsumexp": Call(torch.logsumexp, (X,), DIM | KEPT, 1),
    "var": Call(torch.var, (X,), DIM | {"unbiased": FLAGS} | KEPT, 3),
    "std": Call(lambda x, **kwargs: torch.std(x, **kwargs), (X,), {"correction": st.sampled_from((0, 1, 2))}),
    "norm": Call(torch.linalg.vector_norm, (X,), {"ord": st.sampled_from((1, 2, 3.0)), "dim": DIMS, "keepdim": FLAGS}),
    "cumsum": Call(torch.cumsum, (X,), DIM, 1),
    "softmax": Call(torch.softmax, (X,), DIM, 1),
    "flip": Call(torch.flip, (X,), {"dims": st.sampled_from(((0,), (-1,), (0, 1)))}, 1),
    "roll": Call(torch.roll, (X,), {"shifts": SHIFTS, "dims": DIMS}, 1),
    "tril": Call(torch.tril, (X,), {"diagonal": SHIFTS}),
    "triu": Call(torch.triu, (X,), {"diagonal": SHIFTS}),
    "diagonal": Call(torch.diagonal, (IMAGE,), {"offset": SHIFTS, "dim1": st.just(-2), "dim2": st.just(-1)}),
    "diag embed": Call(torch.diag_embed, (X,), {
        "offset": SHIFTS, "dim1": st.just(0), "dim2": st.sampled_from((1, -1))}),
    "narrow": Call(torch.narrow, (X,), DIM | {"start": st.integers(0, 2), "length": st.integers(1, 3)}, 3),
    "sort": Call(lambda x, *args, **kwargs: torch.sort(x, *args, **kwargs)[0], (X,), DIM | {"descending": FLAGS}),
    "topk": Call(lambda x, *args, **kwargs: torch.topk(x, 3, *args, **kwargs)[0], (X,), DIM | {"largest": FLAGS}),
    "leaky relu": Call(F.leaky_relu, (X,), {"negative_slope": FACTORS}),
    "elu": Call(F.elu, (X,), {"alpha": FACTORS}),
    "celu": Call(F.celu, (X,), {"alpha": FACTORS}),
    "softplus": Call(F.softplus, (X,), {"beta": FACTORS, "threshold": FACTORS}),
    "hardtanh": Call(F.hardtanh, (X,), {"min_val": st.just(-0.5), "max_val": FACTORS}),
    "gelu": Call(F.gelu, (X,), {"approximate": st.sampled_from(("none", "tanh"))}),
    "hardshrink": Call(torch.hardshrink, (X,), {"lambd": FACTORS}),
    "softshrink": Call(F.softshrink, (X,), {"lambd": FACTORS}),
    "clamp": Call(torch.clamp, (X,), {"min": st.sampled_from((None, -0.5)), "max": FACTORS}, 2),
    "nan to num": Call(torch.nan_to_num, (X / X.relu(),), {"nan": FACTORS, "posinf": FACTORS, "neginf": FACTORS}),
    "add": Call(torch.add, (X, Y), {"alpha": FACTORS}),
    "sub": Call(lambda x, y, **kwargs: torch.sub(x, y, **kwargs), (X, Y), {"alpha": FACTORS}),
    "addcmul": Call(lambda x, y, **kwargs: torch.addcmul(x, x, y, **kwargs), (X, Y), {"value": FACTORS}),
    "div": Call(torch.div, (X, Y), {"rounding_mode": st.sampled_from((None, "floor", "trunc"))}),
    "round": Call(lambda x, **kwargs: torch.round(x, **kwargs), (X,), {"decimals": st.sampled_from((0, 1))}),
    "layer norm": Call(lambda x, *args, **kwargs: F.layer_norm(x, (COLUMNS,), *args, **kwargs), (X, WEIGHT, BIAS), {
        "weight": st.sampled_from((None, At(1))), "bias": st.sampled_from((None, At(2))), "eps": FACTORS}, 0, 1),
    "rms norm": Call(lambda x, *args, **kwargs: F.rms_norm(x, (COLUMNS,), *args, **kwargs), (X, WEIGHT), {
        "weight": st.sampled_from((None, At(1))), "eps": FACTORS}, 0, 1),
    "group norm": Call(lambda x, *args, **kwargs: F.group_norm(x, 3, *args, **kwargs), (IMAGE, WEIGHT[:3], BIAS[:3]), {
        "weight": st.sampled_from((None, At(1))), "bias": st.sampled_from((None, At(2))), "eps": FACTORS}, 0, 1),
    "mse": Call(lambda x, y, **kwargs: F.mse_loss(x, y, **kwargs), (X, Y), {"reduction": REDUCTIONS}),
    "smooth l1": Call(lambda x, y, **kwargs: F.smooth_l1_loss(x, y, **kwargs), (X, Y), {
        "reduction": REDUCTIONS, "beta": FACTORS}),
    "huber": Call(F.huber_loss, (X, Y), {"reduction": REDUCTIONS, "delta": FACTORS}),
    "kl": Call(lambda x, y, **kwargs: F.kl_div(x, y, **kwargs), (X, Y.abs()), {
        "reduction": st.sampled_from(("sum", "none")), "log_target": FLAGS}),
    "cross entropy": Call(lambda x, y, **kwargs: F.cross_entropy(x, y, **kwargs), (X, CLASSES, WEIGHT.abs()), {
        "weight": st.sampled_from((None, At(2))), "ignore_index": st.sampled_from((-100, 0, 7)),
        "reduction": REDUCTIONS, "label_smoothing": st.sampled_from((0.0, 0.1))}, 0, 2),
    "cross entropy of shares": Call(
        lambda x, y, **kwargs: F.cross_entropy(x, y.softmax(1), **kwargs), (X, Y, WEIGHT.abs()), {
        "weight": st.sampled_from((None, At(2))), "reduction": REDUCTIONS,
        "label_smoothing": st.sampled_from((0.0, 0.1))}, 0, 2),
    "margin": Call(lambda x, y, **kwargs: F.hinge_embedding_loss(x, y.sign(), **kwargs), (X, Y), {
        "margin": FACTORS, "reduction": REDUCTIONS}),
    "cosine": Call(F.cosine_similarity, (X, Y), DIM | {"eps": FACTORS}),
    "distance": Call(F.pairwise_distance, (X, Y), {"p": st.sampled_from((1.0, 2.0)), "eps": FACTORS, "keepdim": FLAGS}),
    "cdist": Call(lambda x, y, **kwargs: torch.cdist(x, y, **kwargs), (X, Y), {"p": st.sampled_from((0.0, 1.0, 2.0))}),
    "average pool": Call(F.avg_pool2d, (IMAGE,), {
        "kernel_size": st.sampled_from((2, (3, 2))), "stride": st.sampled_from((None, 1, 2)),
        "padding": st.sampled_from((0, 1)), "ceil_mode": st.just(False), "count_include_pad": FLAGS,
        "divisor_override": st.sampled_from((None, 3))}, 1),
    "max pool": Call(F.max_pool2d, (IMAGE,), {
        "kernel_size": st.sampled_from((2, 3)), "stride": st.sampled_from((None, 1, 2)),
        "padding": st.sampled_from((0, 1)), "dilation": st.sampled_from((1, 2))}, 1),
    "convolution": Call(F.conv2d, (IMAGE, WEIGHTS, BIAS[:3]), {
        "bias": st.sampled_from((None, At(2))), "stride": st.sampled_from((1, 2)),
        "padding": st.sampled_from((0, 1)), "dilation": st.sampled_from((1, 2)), "groups": st.just(1)}, 0, 2),
    "turned convolution": Call(F.conv_transpose2d, (IMAGE, WEIGHTS, BIAS[:3]), {
        "bias": st.sampled_from((None, At(2))), "stride": st.just(2), "padding": st.sampled_from((0, 1)),
        "output_padding": st.sampled_from((0, 1))}, 0, 2),
    "addmm": Call(lambda x, y, **kwargs: torch.addmm(x[:, :ROWS], x, y.T, **kwargs), (X, Y), {
        "beta": FACTORS, "alpha": FACTORS}),
    "attention": Call(lambda x, y, **kwargs: F.scaled_dot_product_attention(x, y, y, **kwargs), (X, Y), {
        "is_causal": FLAGS, "scale": FACTORS}),
    "scatter": Call(_scattered("scatter"), (X, Y, PLACES), {}),
    "scatter add": Call(_scattered("scatter_add"), (X, Y, PLACES), {}),
    "index add": Call(_index_added, (X, Y, PICKS), {"alpha": st.sampled_from((1, 2.0))}),
    "index put": Call(_put, (X, Y, PICKS), {"accumulate": FLAGS}),
    "index put of two": Call(lambda x, y, at, **kwargs: x.index_put((at, at + 1), y[0, :4], **kwargs), (X, Y, PICKS), {
        "accumulate": FLAGS}),
    "rows index put": Call(lambda x, y, at, **kwargs: x[None].index_put((at * 0, -1 - at), y[:4], **kwargs),
                           (X, Y, PICKS), {"accumulate": FLAGS}),
    "index put beyond": Call(_assigned, (IMAGE, Y, PICKS), {}),
    "put of many": Call(lambda x, y, at, **kwargs: x.index_put((at,), y[:4].repeat(6, 1), **kwargs),
                        (X, Y, PICKS.repeat(6)), {"accumulate": FLAGS}),
    "put": Call(lambda x, y, at, **kwargs: x.put(at - 4, y[0, :4], **kwargs), (X, Y, PICKS), {"accumulate": FLAGS}),
    "put by a mask": Call(lambda x, y: x.index_put((y > 0,), y[0, 0]), (X, Y), {}),
    "rows put by a mask": Call(lambda x, y: x.index_put((y[:, 0] > 0,), y[0]), (X, Y), {}),
    "index copy": Call(lambda x, y, at: x.index_copy(-2, at, y[:4]), (X, Y, PICKS), {}),
    "index fill": Call(lambda x, at, **kwargs: torch.index_fill(x, index=at - 2, **kwargs), (X, PICKS), {
        "dim": DIMS, "value": FACTORS}, 2),
    "index reduce": Call(lambda x, y, at, **kwargs: x.index_reduce(0, at, y[:4], **kwargs), (X, Y, PICKS), {
        "reduce": st.sampled_from(("prod", "mean", "amax", "amin")), "include_self": FLAGS}, 1),
    "scatter reduce": Call(lambda x, y, at, **kwargs: x.scatter_reduce(0, at, y[:2], **kwargs), (X, Y, PLACES), {
        "reduce": st.sampled_from(("sum", "prod", "mean", "amax", "amin")), "include_self": FLAGS}, 1),
    "scatter with": Call(lambda x, y, at, **kwargs: x.scatter(0, at, y[:2], **kwargs), (X, Y, PLACES), {
        "reduce": st.sampled_from(("add", "multiply"))}),
    "scatter of numbers": Call(lambda x, at, **kwargs: x.scatter(0, at, 1.5, **kwargs), (X, PLACES), {
        "reduce": st.sampled_from(("add", "multiply"))}),
    "scatter of many": Call(lambda x, y, at: x.scatter(1, at, y[:4].repeat(1, 3)),
                            (X, Y, PLACES.repeat(2, 3)), {}),
    "scatter to a part": Call(lambda x, y, at: x.scatter(1, at[:, :3], y), (X, Y, PLACES), {}),
    "masked scatter": Call(lambda x, y: x.masked_scatter(y > 0, y), (X, Y), {}),
    "index select of a number": Call(
        lambda x, at, **kwargs: x[0, 0].index_select(index=at * 0, **kwargs), (X, PICKS[0]), {
        "dim": st.sampled_from((0, -1))}, 1),
    "bags": Call(lambda x, at, **kwargs: F.embedding_bag(at, x, at[:3] // 3, **kwargs), (X, PICKS.sort().values), {
        "mode": st.sampled_from(("sum", "mean", "max")), "padding_idx": st.sampled_from((None, 3)),
        "include_last_offset": FLAGS}),
    "bags by weights": Call(lambda x, w, at: F.embedding_bag(
        at, x, at[:2], mode="sum", per_sample_weights=w[:4]), (X, WEIGHT, PICKS.sort().values), {}),
    "running largest": Call(lambda x, **kwargs: torch.cummax(x.round(), **kwargs).indices, (2 * X,), DIM, 1),
    "running least": Call(lambda x, **kwargs: torch.cummin(x / x.relu(), **kwargs).indices, (X,), DIM, 1),
    "running logarithms": Call(torch.logcumsumexp, (4 * X,), DIM, 1),
    "pairs": Call(F.pdist, (X,), {"p": st.sampled_from((0.0, 1.0, 2.0, 3.0))}),
    "among": Call(lambda x, y, **kwargs: torch.isin(x.round(), y.round(), **kwargs), (X, Y), {"invert": FLAGS}),
    "diagonal scatter": Call(lambda x, y, **kwargs: x.diagonal_scatter(y[0, :5], **kwargs), (X[:, :6], Y), {
        "offset": st.sampled_from((1, -1)), "dim1": st.just(1), "dim2": st.just(0)}, 1),
    "triangle": Call(lambda x, offset: x[:, : len(at := torch.tril_indices(3, 5, offset)[1])] + at[:COLUMNS], (X,), {
        "offset": SHIFTS}, 1),
    "upper triangle": Call(lambda x, offset: x[0, 0] * torch.triu_indices(5, 3, offset), (X,), {"offset": SHIFTS}, 1),
    "shifts": Call(lambda x, at, n: (x * 99).int() >> n << at[0].int(), (X, PICKS), {
        "n": st.sampled_from((0, 3, 31, 40, -1))}, 1),
    "polygamma": Call(lambda x, n: torch.polygamma(n, x.abs() + 0.1), (X,), {"n": st.integers(0, 4)}, 1),
    "steps": Call(lambda x, **kwargs: x[0, 0] * torch.arange(**kwargs), (X,), {
        "start": st.sampled_from((0, 0.25)), "end": st.just(4.5), "step": FACTORS}, 2),
    "even steps": Call(lambda x, **kwargs: x[0, 0] * torch.linspace(**kwargs), (X,), {
        "start": st.just(-1.0), "end": FACTORS, "steps": st.sampled_from((1, 2, 9))}, 3),
    "all": Call(lambda x, *args, **kwargs: torch.all(x > -1, *args, **kwargs), (X,), DIM | KEPT, 1),
    "any": Call(lambda x, *args, **kwargs: torch.any(x > 1, *args, **kwargs), (X,), DIM | KEPT, 1),
    "both ends": Call(lambda x, **kwargs: torch.sub(*torch.aminmax(x, **kwargs)), (X,), DIM | KEPT),
    "argmin": Call(torch.argmin, (X,), DIM | KEPT),
    "nonzeros": Call(lambda x, **kwargs: torch.count_nonzero(x.relu(), **kwargs), (X,), DIM),
    "median": Call(lambda x, *args, **kwargs: torch.median(x, *args, **kwargs)[0], (X,), DIM | KEPT, 1),
    "median of numbers": Call(lambda x, *args, **kwargs: torch.nanmedian(x / x.relu(), *args, **kwargs)[0], (X,),
                              DIM | KEPT, 1),
    "kth value": Call(lambda x, *args, **kwargs: torch.kthvalue(x, 2, *args, **kwargs)[0], (X,), DIM | KEPT),
    "variance and mean": Call(lambda x, **kwargs: torch.add(*torch.var_mean(x, **kwargs)), (X,), DIM | {
        "correction": st.sampled_from((0, 1, 2))} | KEPT, 1),
    "deviation and mean": Call(lambda x, **kwargs: torch.add(*torch.std_mean(x, **kwargs)), (X,), DIM | {
        "correction": st.sampled_from((0, 1))} | KEPT, 1),
    "matrix norm": Call(lambda x, **kwargs: torch.linalg.matrix_norm(x, **kwargs), (IMAGE,), {
        "ord": st.sampled_from(("fro", 1, torch.inf)), "dim": st.sampled_from(((-2, -1), (1, 2))), "keepdim": FLAGS}),
    "running product": Call(torch.cumprod, (X,), DIM, 1),
    "log softmax": Call(torch.log_softmax, (X,), DIM, 1),
    "glu": Call(F.glu, (X,), DIM),
    "logit": Call(lambda x, *args, **kwargs: torch.logit(x.sigmoid(), *args, **kwargs), (X,), {"eps": st.just(0.2)}),
    "clip": Call(torch.clip, (X,), {"min": st.sampled_from((None, -0.5)), "max": FACTORS}, 2),
    "addcdiv": Call(lambda x, y, **kwargs: torch.addcdiv(x, x, y, **kwargs), (X, Y), {"value": FACTORS}),
    "rsub": Call(lambda x, y, **kwargs: torch.rsub(x, y, **kwargs), (X, Y), {"alpha": FACTORS}),
    "addmv": Call(lambda x, y, **kwargs: torch.addmv(x[:, 0], y, x[0], **kwargs), (X, Y), {
        "beta": FACTORS, "alpha": FACTORS}),
    "baddbmm": Call(lambda x, y, **kwargs: torch.baddbmm(x[:, :ROWS], x[None], y.T[None], **kwargs), (X, Y), {
        "beta": FACTORS, "alpha": FACTORS}),
    "addbmm": Call(lambda x, y, **kwargs: torch.addbmm(x[:, :ROWS], x[None], y.T[None], **kwargs), (X, Y), {
        "beta": FACTORS, "alpha": FACTORS}),
    "absolute error": Call(lambda x, y, **kwargs: F.l1_loss(x, y, **kwargs), (X, Y), {"reduction": REDUCTIONS}),
    "entropy of shares": Call(
        lambda x, y, w, **kwargs: F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), **kwargs), (X, Y, WEIGHT.abs()), {
        "weight": st.sampled_from((None, At(2))), "reduction": REDUCTIONS}),
    "entropy of logits": Call(
        lambda x, y, w, **kwargs: F.binary_cross_entropy_with_logits(x, y.sigmoid(), **kwargs),
        (X, Y, WEIGHT.abs()), {
        "weight": st.sampled_from((None, At(2))), "reduction": REDUCTIONS,
        "pos_weight": st.sampled_from((None, At(2)))}),
    "soft margin": Call(lambda x, y, **kwargs: F.soft_margin_loss(x, y.sign(), **kwargs), (X, Y), {
        "reduction": REDUCTIONS}),
    "ranks": Call(lambda x, y, **kwargs: F.margin_ranking_loss(x, y, y.sign(), **kwargs), (X, Y), {
        "margin": FACTORS, "reduction": REDUCTIONS}),
    "cosine of pairs": Call(lambda x, y, **kwargs: F.cosine_embedding_loss(x, y, y[:, 0].sign(), **kwargs), (X, Y), {
        "margin": st.sampled_from((0.0, 0.3)), "reduction": REDUCTIONS}),
    "triplets": Call(lambda x, y, **kwargs: F.triplet_margin_loss(x, y, x.flip(0), **kwargs), (X, Y), {
        "margin": FACTORS, "p": st.sampled_from((1.0, 2.0)), "eps": st.just(1e-3), "swap": FLAGS,
        "reduction": REDUCTIONS}),
    "likelihood": Call(lambda x, y, **kwargs: F.nll_loss(x, y, **kwargs), (X, CLASSES, WEIGHT.abs()), {
        "weight": st.sampled_from((None, At(2))), "ignore_index": st.sampled_from((-100, 0, 7)),
        "reduction": REDUCTIONS}, 0, 2),
    "gather": Call(lambda x, at, **kwargs: torch.gather(x, 0, at, **kwargs), (X, PLACES), {"sparse_grad": FLAGS}),
    "slice scatter": Call(lambda x, y, **kwargs: x.slice_scatter(y[:2], **kwargs), (X, Y), {
        "dim": st.sampled_from((0, -2)), "start": st.sampled_from((1, -5)), "end": st.sampled_from((5, -1)),
        "step": st.just(2)}, 4),
    "places among": Call(lambda x, y, **kwargs: torch.searchsorted(x.sort(-1)[0], y, **kwargs), (X, Y), {
        "right": FLAGS}),
    "bins": Call(lambda x, w, **kwargs: torch.bucketize(x, w.sort()[0], **kwargs), (X, WEIGHT), {"right": FLAGS}),
    "repeats": Call(torch.repeat_interleave, (X,), {"repeats": st.sampled_from((1, 3)), "dim": DIMS}, 1),
    "stack": Call(lambda x, y, **kwargs: torch.stack((x, y), **kwargs), (X, Y), {
        "dim": st.sampled_from((0, 1, 2, -1, -3))}),
    "cat": Call(lambda x, y, **kwargs: torch.cat((x, y), **kwargs), (X, Y), DIM),
    "chunk": Call(lambda x, **kwargs: torch.chunk(x, 3, **kwargs)[1], (X,), DIM),
    "split": Call(lambda x, **kwargs: torch.split(x, 4, **kwargs)[-1], (X,), DIM),
    "uneven parts": Call(lambda x, **kwargs: torch.tensor_split(x, 4, **kwargs)[1], (X,), DIM),
    "unbind": Call(lambda x, **kwargs: torch.unbind(x, **kwargs)[2], (X,), DIM),
    "strided": Call(lambda x, **kwargs: torch.as_strided(x.contiguous(), (3, 4), (8, 2), **kwargs), (X,), {
        "storage_offset": st.sampled_from((0, 5))}),
    "average of rows": Call(lambda x, **kwargs: F.avg_pool1d(x, **kwargs), (X,), {
        "kernel_size": st.sampled_from((2, 3)), "stride": st.sampled_from((None, 1, 2)),
        "padding": st.sampled_from((0, 1)), "ceil_mode": FLAGS, "count_include_pad": FLAGS}, 1),
    "largest of rows": Call(lambda x, **kwargs: F.max_pool1d(x, **kwargs), (X,), {
        "kernel_size": st.sampled_from((2, 3)), "stride": st.sampled_from((None, 1, 2)),
        "padding": st.sampled_from((0, 1)), "dilation": st.sampled_from((1, 2)), "ceil_mode": FLAGS}, 1),
    "rows by numbers": Call(lambda x, at, **kwargs: F.embedding(at, x, **kwargs), (X, PICKS), {
        "padding_idx": st.sampled_from((None, 3, -1))}),
    "resized smoothly": Call(lambda x, **kwargs: F.interpolate(x, mode="bilinear", **kwargs), (IMAGE,), {
        "size": st.sampled_from(((5, 9), (14, 16))), "align_corners": FLAGS}, 1),
    "resized": Call(lambda x, **kwargs: F.interpolate(x, **kwargs), (IMAGE,), {
        "scale_factor": st.sampled_from((2.0, 1.5, 0.5)), "mode": st.sampled_from(("nearest", "nearest-exact"))}, 1),
    "convolution of rows": Call(lambda x, w, b, **kwargs: F.conv1d(x[0], w[:, :, 0], **kwargs),
                                (IMAGE, WEIGHTS, BIAS[:3]), {
        "bias": st.sampled_from((None, At(2))), "stride": st.sampled_from((1, 2)),
        "padding": st.sampled_from((0, 1, "same")), "dilation": st.sampled_from((1, 2))}),
    "turned convolution of rows": Call(lambda x, w, b, **kwargs: F.conv_transpose1d(x[0], w[:, :, 0], **kwargs),
                                       (IMAGE, WEIGHTS, BIAS[:3]), {
        "bias": st.sampled_from((None, At(2))), "stride": st.just(2), "padding": st.sampled_from((0, 1)),
        "output_padding": st.sampled_from((0, 1)), "dilation": st.sampled_from((1, 2))}),
}  # fmt: skip
MADE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "given": lambda x: x, "ones": torch.ones_like, "zeros": torch.zeros_like,
    "negative": lambda x: torch.full_like(x, -2.5),
    "triangle": lambda x: torch.ones(x.shape, dtype=x.dtype).tril(),
    "scaled": lambda x: x * 0.5,
}  # fmt: skip


class Forward(torch.nn.Module):
    """One call on what `first` makes of the first tensor."""

    def __init__(
        self, call: Call, first: Callable[[torch.Tensor], torch.Tensor], placed: list[Any], named: dict[str, Any]
    ) -> None:
        super().__init__()
        self.call, self.first, self.placed, self.named = call, first, placed, named

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        def of(value: Any) -> Any:
            return tensors[value.number] if isinstance(value, At) else value

        operands = (self.first(tensors[0]), *tensors[1 : self.call.operands])
        named = {name: of(value) for name, value in self.named.items()}
        return self.call.function(*operands, *map(of, self.placed), **named)

    def extra_repr(self) -> str:
        """What a failing example is printed as."""
        return f"{self.placed}, {self.named}"


@st.composite
def drawn_forward(draw: st.DrawFn, name: str) -> Forward:
    """The call with drawn arguments, some by position and the rest by name, on an input or on what a forward makes."""
    call = CALLS[name]
    values = {
        key: draw(values if at < call.required else st.one_of(st.just(LEFT_OUT), values))
        for at, (key, values) in enumerate(call.further.items())
    }
    whole = list(values.values())
    leading = next((at for at, value in enumerate(whole) if value is LEFT_OUT), len(whole))
    placed = draw(st.integers(0, leading)) if _takes_places(call) else 0
    named = {key: value for key, value in list(values.items())[placed:] if value is not LEFT_OUT}
    first = MADE[draw(st.sampled_from(tuple(MADE)))]
    return Forward(call, first, whole[:placed], named)


def _takes_places(call: Call) -> bool:
    """Whether further arguments may be given by position: lambdas that take keywords alone say no."""
    code = getattr(call.function, "__code__", None)
    many = min(call.operands, len(call.tensors))
    return call.required > 0 if code is None else bool(code.co_flags & 0x04) or code.co_argcount > many


def agrees(forward: Callable[..., torch.Tensor], tensors: tuple[torch.Tensor, ...], label: str) -> None:
    """The lowered forward gives PyTorch's results; one that is declined says nothing."""
    try:
        wanted = forward(*tensors)
    except (RuntimeError, IndexError, ValueError):
        return  # PyTorch itself takes no such call
    problem = trace(forward, *tensors)
    try:
        lowered = staged(problem)
    except UnwritableError:
        return
    named = dict(zip((each.name for each in problem.inputs), tensors, strict=True))
    (got,) = meaning(problem, lowered, named)
    assert_close(got.to(wanted.dtype), wanted, forward(*map(_wide, tensors)), label)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CALLS)
def test_every_form_of_a_call_means_what_pytorch_computes(name: str) -> None:
    @settings(max_examples=max(4, settings().max_examples // 20), phases=(Phase.generate,))
    @given(drawn_forward(name))
    def check(forward: Forward) -> None:
        agrees(forward, CALLS[name].tensors, name)

    check()


def test_the_schemas_are_those_of_this_pytorch() -> None:
    """Where they differ: `PYTHONPATH=.:tests/knowledge python -m schemas_of_torch` writes them."""
    assert text() == FILE.read_text(encoding="utf-8")


def test_a_pad_without_a_mode_is_one_by_a_constant() -> None:
    agrees(lambda x: F.pad(x, (0, 2)), (X,), "pad")


@pytest.mark.parametrize("base", [torch.ones, torch.zeros])
def test_what_is_added_to_a_constant_keeps_it(base: Callable[..., torch.Tensor]) -> None:
    agrees(lambda x, at: base(ROWS, COLUMNS, dtype=x.dtype).scatter_add(0, at, x[:2]), (X, PLACES), "scatter_add")
    agrees(lambda x, at: base(ROWS, COLUMNS, dtype=x.dtype).index_add(0, at, x[:4]), (X, PICKS), "index_add")
    agrees(
        lambda x, at: base(ROWS, COLUMNS, dtype=x.dtype).index_put((at,), x[:4], accumulate=True),
        (X, PICKS),
        "index_put",
    )
