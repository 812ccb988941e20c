"""What the front makes of traced operations is what torch computes: no kernel is compiled."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from ir_cases import CASES, IMAGE, Case, X
from ir_evaluation import meaning, of_kernels
from traced import assert_close, trace

from knowledge.compiler.ir.verify import verify
from knowledge.compiler.passes.fusion import fused
from knowledge.compiler.passes.pooling import pooled
from knowledge.compiler.passes.staging import staged
from knowledge.compiler.problem import Problem


def outputs_of(made: object) -> tuple[torch.Tensor, ...]:
    """One tensor or several as several."""
    return tuple(made) if isinstance(made, tuple | list) else (made,)  # type: ignore[arg-type,return-value]


def oracle_of(case: Case) -> tuple[torch.Tensor, ...]:
    """What a case gives in float64."""
    wide = (each.double() if each.is_floating_point() else each for each in case.inputs)
    return outputs_of(case.function(*wide))


def assert_means_the_same(name: str, case: Case) -> Problem:
    """The values that a case is lowered to are its own; the traced problem, for what follows."""
    problem = trace(case.function, *case.inputs)
    lowered = staged(problem)
    verify(node for _, node in lowered.outputs)
    given = dict(zip((each.name for each in problem.inputs), case.inputs, strict=True))
    wanted = outputs_of(case.function(*case.inputs))
    for got, theirs, oracle in zip(meaning(problem, lowered, given), wanted, oracle_of(case), strict=True):
        assert_close(got, theirs, oracle, name)
    return problem


DECOMPOSED: dict[str, Case] = {
    "addr": Case(lambda x, y: torch.addr(x, y[:, 0], y[0], alpha=2), (X, X + 1)),
    "column_stack": Case(lambda x, y: torch.column_stack((x, y)), (X, X + 1)),
    "dist": Case(torch.dist, (X, X + 1)),
    "hsplit": Case(lambda x: x[:, :6].hsplit(2)[1], (X,)),
    "kron": Case(torch.kron, (X, X[:2] + 1)),
    "new_full": Case(lambda x: x * x.new_full((5, 1), 3), (X,)),
    "tensordot": Case(lambda x, y: torch.tensordot(x, y, ([1], [1])), (X, X + 1)),
    "trapezoid": Case(lambda x: torch.trapezoid(x, dx=0.5), (X,)),
    "written into": Case(lambda x: torch.empty_like(x).copy_(x).addr_(x[:, 0], x[0]), (X,)),
}


@pytest.mark.parametrize("name", DECOMPOSED)
def test_what_pytorch_decomposes_means_what_torch_computes(name: str) -> None:
    assert_means_the_same(name, DECOMPOSED[name])


TOGETHER: dict[str, Case] = {
    "two totals": Case(lambda x, y: (x.sum(1) * 2, (x * y).amax(1)), (X, X + 1)),
    "rows and what they are by": Case(lambda x: (x - x.mean(1, keepdim=True)) / (1 + x.var(1, keepdim=True)), (X,)),
    "turned": Case(lambda x: (x.sum(1) + 1, x[:, :5].sum(1)[None] + x[:, :5].t() * x[:, :5].sum(1)[:, None]), (X,)),
    "a product and its totals": Case(lambda x, y: ((x @ y.t()).softmax(1), (x @ y.t()).amax(0)), (X, X + 1)),
    "a pool of sums": Case(
        lambda x, w: F.max_pool2d(F.conv2d(x, w).relu(), 2), (IMAGE, torch.linspace(-1, 1, 12).view(2, 3, 2, 1))
    ),
}


@pytest.mark.parametrize("name", [*TOGETHER, *CASES])
def test_what_is_traced_and_its_kernels_mean_what_torch_computes(name: str) -> None:
    """The values as lowered, and what fusion and pooling make of them for each target."""
    case = (TOGETHER | CASES)[name]
    problem = assert_means_the_same(name, case)
    given = dict(zip((each.name for each in problem.inputs), case.inputs, strict=True))
    wanted, oracles = outputs_of(case.function(*case.inputs)), oracle_of(case)
    for target in ("cpu", "cuda"):
        asked = problem.model_copy(update={"target": target})
        lowered = staged(asked)
        made = fused(asked, lowered)
        if asked.on_gpu:
            made = pooled(made, lowered.graph, {each.name for each in asked.outputs})
        if any(kernel.stepped for kernel in made.kernels):
            continue
        for got, theirs, oracle in zip(of_kernels(asked, made.kernels, given), wanted, oracles, strict=True):
            assert_close(got, theirs, oracle, f"{name} on {target}")
