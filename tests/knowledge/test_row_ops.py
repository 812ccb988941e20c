"""Reductions along rows against torch and float64: every operation, every knob, long rows, odd and strided ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from goldens import Golden
from traced import Compiler, assert_close, call, trace

from knowledge.compiler.plan import Decline, Plan
from knowledge.compiler.problem import Problem, Scalar
from knowledge.compiler.schedule.rows.recipe import RowRecipe

RECIPE = RowRecipe()
KNOBS: dict[str, dict[str, int | str]] = {
    "plain": {},
    "SIMD": {"lanes": 16},
    "everything": {
        "lanes": 16,
        "exact": 1,
        "keep": 1,
        "accumulators": 4,
        "threads": "rows",
        "streaming": 1,
        "prefetch": 1,
    },
    "columns": {"lanes": 8, "exact": 1, "accumulators": 4, "threads": "columns"},
    "plain columns": {"threads": "columns"},
}
FEW = ("plain", "everything")
SUMMED = ("plain", "columns", "plain columns")


def many(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Every reduction, alone and between elementwise steps."""
    centred = x - x.mean(-1, keepdim=True)
    shifted = torch.exp(x - x.amax(1, keepdim=True))
    return (
        F.softmax(x, -1), F.log_softmax(x, 1), x.sum(-1), x.mean(-1, keepdim=True), x.amax(-1), x.amin(-1),
        x.logsumexp(-1), x.norm(dim=-1), x.norm(p=1, dim=-1), x.var(-1), x.std(-1, unbiased=False),
        F.layer_norm(x, (x.shape[-1],), w, b), F.rms_norm(x, (x.shape[-1],), w),
        x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w, F.softmax(x * 0.3, -1), F.normalize(x, dim=-1),
        (x > 0).any(-1), (x > -5).all(-1), shifted / shifted.sum(-1, keepdim=True), centred.abs().sum(-1),
        F.gelu(F.layer_norm(x, (x.shape[-1],))),
    )  # fmt: skip


def losses(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Every loss that is one number, a mean or a sum."""
    p, q = torch.sigmoid(x), torch.sigmoid(y)
    return (
        F.l1_loss(x, y), F.mse_loss(x, y, reduction="sum"), F.smooth_l1_loss(x, y), F.huber_loss(x, y, delta=0.3),
        F.kl_div(x, q), F.kl_div(x, y * 0.1, reduction="batchmean", log_target=True), F.binary_cross_entropy(p, q),
        F.binary_cross_entropy(p, q, weight=p, reduction="sum"), F.binary_cross_entropy_with_logits(x, q),
        F.soft_margin_loss(x * 0.1, y), F.hinge_embedding_loss(x, y.sign()), F.poisson_nll_loss(x * 0.1, q),
        F.margin_ranking_loss(x, y, y.sign()), torch.clamp(1 - x * y, min=0).mean(),
    )  # fmt: skip


def lengths(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Norms of all orders, distances, and what else tells one number a row."""
    vector = torch.linalg.vector_norm
    return (
        vector(x, 3, -1), vector(x, 0.5, -1), vector(x.relu(), 0, -1), vector(x, torch.inf, -1),
        vector(x, -torch.inf, -1), torch.linalg.norm(x, dim=-1), F.pairwise_distance(x, y),
        F.pairwise_distance(x, y, 1, keepdim=True), F.cosine_similarity(x, y), F.cosine_similarity(x, y[:1], eps=0.1),
        torch.count_nonzero(x > 0.5, -1), *torch.aminmax(x, dim=-1), *torch.aminmax(y, dim=-1, keepdim=True),
    )  # fmt: skip


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], tuple[str, ...]]] = {
    "many": (many, ((9, 1003), (1003,), (1003,)), ("plain", "SIMD", "everything", "columns")),
    "indices": (lambda x: (*x.max(-1), x.argmin(-1)), ((7, 130),), ("plain",)),
    "losses": (losses, ((9, 1003), (9, 1003)), ("everything", "columns")),
    "lengths": (lengths, ((9, 103), (9, 103)), ("everything",)),
    "of matrices": (lambda x: x / torch.linalg.matrix_norm(x, keepdim=True), ((3, 20, 7),), ("plain",)),
    "everything summed": (lambda x: x.sum(), ((3, 70000),), SUMMED),
    "middle dimension": (lambda x: F.softmax(x, 1), ((3, 50, 4, 5),), FEW),
    "first dimension": (lambda x: x.mean(0), ((40, 33),), FEW),
    "two dimensions": (lambda x: x.amax((1, 2)) + 1, ((6, 5, 20),), FEW),
    "permuted": (lambda x: F.layer_norm(x.transpose(0, 1), (48,)), ((48, 10),), ("everything",)),
    "instance": (lambda x: F.instance_norm(x), ((2, 3, 8, 9),), ("everything",)),
    "groups": (
        lambda x, w, b: F.relu(F.group_norm(x, 4, w, b)) * b.view(12, 1),
        ((3, 12, 50), (12,), (12,)),
        ("everything",),
    ),
    "merged by a copy": (lambda x: F.softmax(x.transpose(1, 2).reshape(3, -1), -1), ((3, 20, 7),), ("everything",)),
    "pooled": (lambda x: F.adaptive_avg_pool2d(x, (2, 1)) + 1, ((3, 4, 6, 50),), ("everything",)),
    "short": (lambda x: F.softmax(x, -1), ((1000, 3),), ("SIMD",)),
}
RUNS = [(name, knobs) for name, (_, _, wanted) in CASES.items() for knobs in wanted]


def inputs(shapes: tuple[tuple[int, ...], ...], scale: float = 1.0) -> list[torch.Tensor]:
    """Normal numbers."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(shape, generator=generator) * scale for shape in shapes]


def source(problem: Problem, knobs: str) -> str:
    """The kernel under some knobs."""
    first = RECIPE.first_plan(problem)
    assert isinstance(first, Plan), first
    return RECIPE.render(problem, first.with_knobs(**KNOBS[knobs]))


@pytest.fixture(scope="module")
def problems() -> dict[str, Problem]:
    """Each case traced once."""
    return {name: trace(function, *inputs(shapes)) for name, (function, shapes, _) in CASES.items()}


@pytest.fixture(scope="module")
def sources(problems: dict[str, Problem]) -> dict[tuple[str, str], str]:
    """Each run's source."""
    return {(name, knobs): source(problems[name], knobs) for name, knobs in RUNS}


@pytest.mark.parametrize(("name", "knobs"), RUNS)
def test_rows_are_as_right_as_torch(
    golden: Golden, compiler: Compiler, problems: dict[str, Problem], sources: dict[tuple[str, str], str],
    name: str, knobs: str,
) -> None:  # fmt: skip
    if golden.holds([sources[name, knobs]], *compiler.flags):
        return
    function, shapes, _ = CASES[name]
    compiler.build_all(list(sources.values()))
    kernel = compiler.build(sources[name, knobs])
    for scale in (1.0, 1e-4, 30.0):
        given = inputs(shapes, scale)
        reference, oracle = function(*given), function(*(each.double() for each in given))
        many_outputs = isinstance(reference, tuple)
        pairs = zip(reference, oracle, strict=True) if many_outputs else [(reference, oracle)]
        for k, (got, (theirs, exact)) in enumerate(zip(call(kernel, problems[name], given), pairs, strict=True)):
            assert_close(got, theirs, exact, f"{name}[{k}] times {scale}")


@pytest.mark.parametrize("knobs", ["plain", "everything"])
def test_nan_and_infinity_go_where_torch_puts_them(golden: Golden, compiler: Compiler, knobs: str) -> None:
    x = torch.randn(6, 40)
    x[4], x[5] = x[4].abs() + 1, -x[5].abs() - 1
    x[0, 39], x[1, 3], x[2, :], x[3, 7], x[4, 0] = torch.nan, torch.inf, -torch.inf, -torch.inf, 3e38

    def extremes(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.amax(-1), x.amin(-1), x.sum(-1), F.softmax(x, -1), x.logsumexp(-1)

    problem = trace(extremes, x)
    if golden.holds([written := source(problem, knobs)], *compiler.flags):
        return
    kernel = compiler.build(written)
    for got, theirs, exact in zip(call(kernel, problem, [x]), extremes(x), extremes(x.double()), strict=True):
        assert_close(got, theirs, exact, "special")


def test_a_number_passed_by_value_scales_the_rows(golden: Golden, compiler: Compiler) -> None:
    x = torch.randn(5, 60)
    traced = trace(lambda a, b: F.softmax(a * b, -1) + b, x, torch.tensor(2.0))
    problem = traced.model_copy(update={"inputs": (traced.inputs[0], Scalar(name="b", type="float", value=2.0))})
    written = [source(problem, knobs) for knobs in ("plain", "everything")]
    if golden.holds(written, *compiler.flags):
        return
    for kernel in compiler.build_all(written):
        (got,) = call(kernel, problem, [x, -0.5])
        assert_close(got, F.softmax(x * -0.5, -1) - 0.5, F.softmax(x.double() * -0.5, -1) - 0.5, "scaled")


def test_a_long_sum_is_no_worse_than_torch(golden: Golden, compiler: Compiler) -> None:
    x = torch.rand(2, 400_000)
    problem = trace(lambda x: x.sum(-1), x)
    written = [source(problem, knobs) for knobs in ("plain", "everything")]
    if golden.holds(written, *compiler.flags):
        return
    for kernel in compiler.build_all(written):
        (got,) = call(kernel, problem, [x])
        assert_close(got, x.sum(-1), x.double().sum(-1), "a long sum")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x.sum(0) + x.sum(1), "different dimensions"),
        (lambda x: F.softmax(x, -1).mean(-1).max(), "reduc"),
        (lambda x: x.sum(-1).flip(0), "outside of its row"),
        (lambda x: x - x.sum(0).unsqueeze(1), "outside of its row"),
    ],
)
def test_what_has_no_common_row_is_declined(function: Callable[..., Any], reason: str) -> None:
    outcome = RECIPE.first_plan(trace(function, torch.randn(12, 12)))
    assert isinstance(outcome, Decline)
    assert reason in outcome.reason
