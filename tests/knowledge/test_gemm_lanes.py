"""What follows a product on the processor, on registers: every activation that calls a function, and other operands."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from goldens import Golden
from traced import Compiler, assert_close, call, trace

from knowledge.compiler.plan import Draft
from knowledge.compiler.problem import Device
from knowledge.compiler.schedule.gemm.recipe import GemmRecipe
from knowledge.compiler.search.first import first_draft

DEVICE = Device(threads=2, simd_floats=16)
Function = Callable[..., torch.Tensor]
ACTIVATIONS: dict[str, Function] = {
    "gelu": F.gelu,
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "mish": F.mish,
    "log_sigmoid": F.logsigmoid,
    "selu": F.selu,
    "elu": lambda x: F.elu(x, 0.7),
    "softplus": lambda x: F.softplus(x, 3.0, 1.5),
    "exp, then clamped": lambda x: torch.exp(x).clamp(0.5, 2),
}
# Whole fragments, and edges of rows and columns.
X, W, B = (torch.randn(shape, generator=torch.Generator().manual_seed(5)) for shape in ((85, 70), (150, 70), (150,)))


def layer(name: str) -> Function:
    return lambda x, w, b: ACTIVATIONS[name](F.linear(x, w, b))


def others(x: torch.Tensor, w: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    """A matrix whose columns are no neighbours, added."""
    return torch.tanh(F.linear(x, w) + d.t())


CASES = {name: (layer(name), (X, W, B)) for name in ACTIVATIONS} | {
    "others": (others, (X, W, torch.randn(150, 85, generator=torch.Generator().manual_seed(6)))),
}


@pytest.fixture(scope="module")
def drafts() -> dict[str, str]:
    found = {}
    for name, (function, given) in CASES.items():
        draft = first_draft(trace(function, *given, device=DEVICE))
        assert isinstance(draft, Draft) and "gemm recipe" in draft.why, name
        found[name] = draft.source
    return found


def test_they_are_as_right_as_torch(golden: Golden, compiler: Compiler, drafts: dict[str, str]) -> None:
    assert all("epilogue.lanes(" in source for source in drafts.values())
    if golden.holds(drafts.values(), *compiler.flags):
        return
    for (name, (function, given)), kernel in zip(CASES.items(), compiler.build_all(drafts.values()), strict=True):
        x = given[0].clone()
        x[3, 5], x[7, 1], x[9, 2] = torch.nan, torch.inf, -torch.inf
        for first in (given[0], x):
            problem = trace(function, *given, device=DEVICE)
            (got,) = call(kernel, problem, (first, *given[1:]))
            wanted = function(*(each.double() for each in (first, *given[1:])))
            assert torch.equal(got.isnan(), wanted.isnan()), name
            theirs = function(first, *given[1:])
            assert_close(*(each.nan_to_num(posinf=9, neginf=-9) for each in (got, theirs, wanted)), name)


@pytest.mark.parametrize(("function", "given"), [
    (lambda x, w: F.relu(F.linear(x, w)), (X, W)),
    (lambda x, w: torch.tanh(F.linear(x, w)), (X.double(), W.double())),
    (lambda x, w: torch.tanh(F.linear(x, w)).tril(), (X, W)),
])  # fmt: skip
def test_what_calls_nothing_slow_or_is_no_float32_has_none(function: Function, given: tuple[torch.Tensor, ...]) -> None:
    problem = trace(function, *given, device=DEVICE)
    recipe, plan = GemmRecipe(), GemmRecipe().first_plan(problem)
    while move := next((each for each in recipe.moves(problem, plan) if each.sure), None):  # type: ignore[arg-type]
        plan = move.plan
    assert "epilogue.lanes(" not in recipe.render(problem, plan)  # type: ignore[arg-type]
