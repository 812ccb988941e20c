"""What the front makes of traced operations is what torch computes: no kernel is compiled."""

from __future__ import annotations

import pytest
import torch
from ir_cases import CASES
from ir_evaluation import meaning
from traced import assert_close, trace

from knowledge.compiler.front import traced
from knowledge.compiler.verify import verify


def outputs_of(made: object) -> tuple[torch.Tensor, ...]:
    """One tensor or several as several."""
    return tuple(made) if isinstance(made, tuple | list) else (made,)  # type: ignore[arg-type,return-value]


def oracle_of(name: str) -> tuple[torch.Tensor, ...]:
    """What a case gives in float64."""
    case = CASES[name]
    wide = (each.double() if each.is_floating_point() else each for each in case.inputs)
    return outputs_of(case.function(*wide))


@pytest.mark.parametrize("name", CASES)
def test_what_is_traced_means_what_torch_computes(name: str) -> None:
    case = CASES[name]
    problem = trace(case.function, *case.inputs)
    lowered = traced(problem)
    verify(node for _, node in lowered.outputs)
    given = dict(zip((each.name for each in problem.inputs), case.inputs, strict=True))
    wanted = outputs_of(case.function(*case.inputs))
    for got, theirs, oracle in zip(meaning(problem, lowered, given), wanted, oracle_of(name), strict=True):
        assert_close(got, theirs, oracle, name)
