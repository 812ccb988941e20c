"""Every elementwise operation against torch and against float64, at every depth that spells it differently."""

from __future__ import annotations

import pytest
from goldens import Golden
from pointwise_cases import GROUPS, Case, Many, operands
from traced import Compiler, assert_close, call, trace

from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.pointwise.recipe import PointwiseRecipe

# torch's own answer is not one to be compared with: a vendor library's NaN at infinity, and nothing but cancellation.
INCOMPARABLE = {("gelu", "special"), ("tanhshrink", "tiny")}
DEPTHS: dict[str, dict[str, int]] = {
    "plain": {},
    "16 lanes": {"lanes": 16, "exact": 1, "threads": 1},
    "8 lanes": {"lanes": 8, "exact": 1},
}
# Operations one kernel: g++ takes three times as long for twice as many.
AT_ONCE = 14


def batches() -> dict[str, dict[str, Case]]:
    """All cases, some operations at a time."""
    return {
        f"{group} {start}": dict(list(cases.items())[start : start + AT_ONCE])
        for group, cases in GROUPS.items()
        for start in range(0, len(cases), AT_ONCE)
    }


BATCHES = batches()
RUNS = [
    (batch, depth)
    for batch in BATCHES
    for depth in DEPTHS
    if depth != "8 lanes" or batch.startswith(("functions", "activations"))
]


@pytest.fixture(scope="module")
def problems() -> dict[str, Problem]:
    """Each batch traced once."""
    return {batch: trace(Many(cases), *operands("normal")) for batch, cases in BATCHES.items()}


@pytest.fixture(scope="module")
def sources(problems: dict[str, Problem]) -> dict[tuple[str, str], str]:
    """Each run's source."""
    recipe = PointwiseRecipe()
    rendered = {}
    for batch, depth in RUNS:
        first = recipe.first_plan(problems[batch])
        assert isinstance(first, Plan), first
        rendered[batch, depth] = recipe.render(problems[batch], first.with_knobs(**DEPTHS[depth]))
    return rendered


@pytest.mark.parametrize(("batch", "depth"), RUNS)
def test_every_operation_is_as_right_as_torch(
    golden: Golden, compiler: Compiler, problems: dict[str, Problem], sources: dict[tuple[str, str], str],
    batch: str, depth: str,
) -> None:  # fmt: skip
    if golden.holds([sources[batch, depth]], *compiler.flags):
        return
    compiler.build_all(list(sources.values()))
    cases, kernel = BATCHES[batch], compiler.build(sources[batch, depth])
    module = Many(cases)
    failures = []
    for kind in ("normal", "wide", "tiny", "special"):
        x, y = operands(kind)
        got = call(kernel, problems[batch], (x, y))
        reference, oracle = module(x, y), module(x.double(), y.double())
        for name, mine, theirs, exact in zip(cases, got, reference, oracle, strict=True):
            if (name, kind) in INCOMPARABLE:
                continue
            try:
                assert_close(mine, theirs, exact, f"{name} on {kind}")
            except AssertionError as failure:
                failures.append(str(failure))
    assert not failures, "\n".join(failures)


def test_at_least_forty_five_operations_are_covered() -> None:
    traced = {op.target for cases in GROUPS.values() for op in trace(Many(cases), *operands("normal")).ops}
    assert len({target.split(".")[1].rstrip("_") for target in traced}) >= 45
