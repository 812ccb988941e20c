"""What the front makes of traced operations is what torch computes: no kernel is compiled."""

from __future__ import annotations

import pytest
import torch
from ir_cases import CASES, Case, X
from ir_evaluation import meaning
from traced import assert_close, trace

from knowledge.compiler.ir.verify import verify
from knowledge.compiler.passes.staging import staged


def outputs_of(made: object) -> tuple[torch.Tensor, ...]:
    """One tensor or several as several."""
    return tuple(made) if isinstance(made, tuple | list) else (made,)  # type: ignore[arg-type,return-value]


def oracle_of(case: Case) -> tuple[torch.Tensor, ...]:
    """What a case gives in float64."""
    wide = (each.double() if each.is_floating_point() else each for each in case.inputs)
    return outputs_of(case.function(*wide))


def assert_means_the_same(name: str, case: Case) -> None:
    problem = trace(case.function, *case.inputs)
    lowered = staged(problem)
    verify(node for _, node in lowered.outputs)
    given = dict(zip((each.name for each in problem.inputs), case.inputs, strict=True))
    wanted = outputs_of(case.function(*case.inputs))
    for got, theirs, oracle in zip(meaning(problem, lowered, given), wanted, oracle_of(case), strict=True):
        assert_close(got, theirs, oracle, name)


@pytest.mark.parametrize("name", CASES)
def test_what_is_traced_means_what_torch_computes(name: str) -> None:
    assert_means_the_same(name, CASES[name])


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
