"""Every elementwise operation against torch and against float64, at every depth that spells it differently."""

from __future__ import annotations

import pytest
import torch
from conftest import Compiler, assert_close, call, trace
from pointwise_cases import GROUPS, Many, operands

from knowledge.playbook.pointwise import PointwiseRecipe
from knowledge.playbook.problem import Device
from knowledge.playbook.recipe import Plan

# torch's own answer is not one to be compared with: a vendor library's NaN at infinity, and nothing but cancellation.
INCOMPARABLE = {("gelu", "special"), ("tanhshrink", "tiny")}
DEPTHS: dict[str, dict[str, int]] = {
    "plain": {},
    "SIMD": {"lanes": 16},
    "exact": {"lanes": 16, "exact": 1, "threads": 1},
}


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("group", GROUPS)
def test_every_operation_is_as_right_as_torch(compiler: Compiler, group: str, depth: str) -> None:
    module = Many(GROUPS[group])
    problem = trace(module, *operands("normal"), device=Device(simd_floats=16))
    recipe = PointwiseRecipe()
    first = recipe.first_plan(problem)
    assert isinstance(first, Plan), first
    library = compiler.build(recipe.render(problem, first.with_knobs(**DEPTHS[depth])))
    failures = []
    for kind in ("normal", "wide", "tiny", "special"):
        x, y = operands(kind)
        got = call(library, problem, (x, y))
        reference, oracle = module(x, y), module(x.double(), y.double())
        for name, mine, theirs, exact in zip(GROUPS[group], got, reference, oracle, strict=True):
            if (name, kind) in INCOMPARABLE:
                continue
            try:
                assert_close(mine, theirs, exact, f"{name} on {kind}")
            except AssertionError as failure:
                failures.append(str(failure))
    assert not failures, "\n".join(failures)
