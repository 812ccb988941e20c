"""Reductions in stages mean what those in one stage mean, and there are more of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from gpu_kernels import H200
from gpu_kernels import traced as on_gpu
from ir_cases import Case
from ir_evaluation import meaning
from traced import MACHINE

from knowledge.compiler.ir.nodes import Value, values
from knowledge.compiler.ir.verify import verify
from knowledge.compiler.lower.front import traced
from knowledge.compiler.lower.lowering import Lowered
from knowledge.compiler.passes.staging import staged


def rand(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def with_nan(x: torch.Tensor) -> torch.Tensor:
    x[1, 33333] = x[1, 44444] = torch.nan
    return x


# A forward; the reductions as it spells them, and as its device makes them: a GPU's, a processor's.
CASES: dict[str, tuple[Case, int, int, int]] = {
    "a long sum": (Case(lambda x: x.sum(), (rand(3, 70000),)), 1, 2, 2),
    "an uneven one": (Case(lambda x: x.amin(1), (rand(2, 49999),)), 1, 2, 2),
    "a short sum": (Case(lambda x: x.sum(1), (rand(5, 7),)), 1, 1, 1),
    "columns": (Case(lambda x: x.amax(0), (rand(3000, 64),)), 1, 2, 1),
    "few products of many": (Case(lambda x, y: x @ y, (rand(8, 4096), rand(4096, 8))), 1, 2, 1),
    "places": (Case(lambda x: x.argmax(1), (with_nan(rand(2, 50000)),)), 1, 4, 4),
    "places beside extrema": (Case(lambda x: x.max(1), (with_nan(rand(2, 50000)),)), 2, 4, 4),
    "places of the least": (Case(lambda x: x.argmin(1, keepdim=True) * x.argmin(), (rand(5, 7),)), 2, 4, 4),
    "a stack's terms": (
        Case(lambda x, y: torch.stack((x, y, x * y)).logsumexp(0), (with_nan(rand(2, 50000)), rand(2, 50000))),
        2,
        0,
        0,
    ),
    "a cat's terms": (
        Case(
            lambda x, y: torch.cat((x[:1], y[:1], x[1:])).prod(0) + torch.stack((x, y), 1).amin(1).sum(0),
            (rand(3, 4), rand(3, 4)),
        ),
        3,
        0,
        0,
    ),
    "many terms": (Case(lambda x, y: torch.cat((x, y)).sum(0), (rand(3, 4), rand(3, 4))), 1, 1, 1),
    "what reads a sum": (Case(lambda x: x - x.sum(1, keepdim=True).exp(), (rand(2, 50000) / 1e4,)), 1, 2, 2),
}


def sums(lowered: Lowered) -> int:
    found = values(*(node for _, node in lowered.outputs if isinstance(node, Value)))
    return sum(value.kind == "reduce" for value in found)


@pytest.mark.parametrize("target", ["cuda", "cpu"])
@pytest.mark.parametrize("name", CASES)
def test_stages_mean_the_same_as_one(name: str, target: str) -> None:
    (function, inputs), plain, gpu, processor = CASES[name]
    problem = on_gpu(function, *inputs)
    if target == "cpu":
        problem = problem.model_copy(update={"target": "cpu", "device": MACHINE})
    wanted = function(*inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    tensors = {each.name: tensor for each, tensor in zip(problem.inputs, inputs, strict=True)}
    for lowered, count in ((traced(problem), plain), (staged(problem), gpu if target == "cuda" else processor)):
        verify(node for _, node in lowered.outputs)
        assert sums(lowered) == count
        for got, each in zip(meaning(problem, lowered, tensors), wanted, strict=True):
            torch.testing.assert_close(got, each, rtol=1e-4, atol=1e-4, equal_nan=True)


def test_a_sum_over_rows_is_staged_by_rows_where_a_kernel_holds_them() -> None:
    def shapes(function: Callable[[torch.Tensor], torch.Tensor]) -> list[tuple[int, ...]]:
        lowered = staged(on_gpu(function, torch.empty(1024, 9000), device=H200))
        found = values(*(node for _, node in lowered.outputs if isinstance(node, Value)))
        return [value.shape for value in found if value.kind == "reduce"]

    assert shapes(lambda x: x.softmax(-1).square().sum()) == [(1024,), (1024,), (1024,), ()]
    assert (1024,) not in shapes(lambda x: x.square().sum())
