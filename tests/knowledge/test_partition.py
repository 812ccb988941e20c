"""Forwards that are several kernels: how they are cut, and that the parts together compute what torch does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from emulated import emulated
from goldens import Golden
from gpu_kernels import A100, H200, compiled_as_it_is, for_nvcc, traced
from traced import Compiler, assert_close, call, trace

from harness.screen.source import screen_source
from knowledge.compiler.plan import Decline, Draft, Plan, settled
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.parts.stages import StagesRecipe
from knowledge.compiler.search.first import first_draft
from knowledge.compiler.search.moves import next_draft
from knowledge.compiler.search.recipes import SINGLE

RECIPE = StagesRecipe(SINGLE)
torch.manual_seed(11)
X, Y, W, V = torch.randn(37, 43), torch.randn(37, 43), torch.randn(29, 43), torch.randn(10, 29)

Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Scores, softmax, and the weighted values, which are one part, and their norm."""
    return F.layer_norm(F.softmax(q @ k.transpose(-2, -1) / 4, -1) @ v, (16,))


def in_place(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """A layer between two others, activated in its own memory."""
    return F.relu(F.linear(F.linear(x, w).relu_().add_(1), v), inplace=True)


def kept(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What a later part reads is returned as well, one of it as another view."""
    rows = F.softmax(x, -1)
    return rows, rows.t(), rows.mean(0), rows.amax(0)


ROWS: dict[str, Case] = {
    "a mean of distances": (lambda x, y: torch.mean(1 - F.cosine_similarity(x, y)), (X, Y)),
    "softmax, then columns": (lambda x: F.softmax(x, -1).mean(0), (X,)),
    "entropy": (lambda x: -(F.softmax(x, -1) * F.log_softmax(x, -1)).sum(-1).mean(), (X,)),
    "both directions": (lambda x: x - x.mean(0, keepdim=True) - x.mean(1, keepdim=True), (X,)),
    "kept": (kept, (X,)),
}
PRODUCTS: dict[str, Case] = {
    "layers": (in_place, (X, W, V)),
    "product and softmax": (lambda x, w: F.softmax(F.linear(x, w), -1), (X, W)),
    "attention": (attention, tuple(torch.randn(2, 3, 17, 16) for _ in range(3))),
    "operands first": (lambda x, w: F.relu(x) @ F.normalize(w, dim=-1).t(), (X, W)),
    "doubles": (lambda x, w: (x @ w.t()).logsumexp(-1), (X.double(), W.double())),
}


def last_plan(problem: Problem, first: Plan) -> Plan:
    """After all moves."""
    begun, _ = settled(RECIPE, problem, first)
    plans, draft = [begun], next_draft(problem, RECIPE.render(problem, begun), ())
    while isinstance(draft, Draft):
        plan = Plan.read(draft.source)
        assert plan is not None and plan not in plans, draft.move
        assert RECIPE.render(problem, plan) == draft.source
        plans.append(plan)
        draft = next_draft(problem, draft.source, ())
    return plans[-1]


def check(results: list[torch.Tensor], case: Case) -> None:
    """As right as torch's own."""
    function, given = case
    expected, oracle = function(*given), function(*(each.double() for each in given))
    both = zip(expected, oracle, strict=True) if isinstance(expected, tuple) else [(expected, oracle)]
    for index, (got, (theirs, exact)) in enumerate(zip(results, both, strict=True)):
        assert_close(got, theirs, exact, f"output {index}")


@pytest.fixture(scope="module")
def sources() -> dict[str, tuple[Problem, list[str]]]:
    """Each case's first kernel and the one after all moves."""
    found = {}
    for name, (function, given) in (ROWS | PRODUCTS).items():
        problem = trace(function, *given)
        first = RECIPE.first_plan(problem)
        assert isinstance(first, Plan), first
        found[name] = (problem, [RECIPE.render(problem, plan) for plan in (first, last_plan(problem, first))])
    return found


@pytest.mark.parametrize("name", [*ROWS, *PRODUCTS])
def test_the_parts_together_are_as_right_as_torch(
    name: str, golden: Golden, compiler: Compiler, sources: dict[str, tuple[Problem, list[str]]]
) -> None:
    case = (ROWS | PRODUCTS)[name]
    problem, written = sources[name]
    if golden.holds(written, *compiler.flags):
        return
    compiler.build_all([source for _, each in sources.values() for source in each])
    for kernel in compiler.build_all(written):
        check(call(kernel, problem, case[1]), case)


@pytest.mark.parametrize("name", ROWS)
def test_the_gpu_s_parts_together_are_as_right_as_torch(name: str, golden: Golden, compiler: Compiler) -> None:
    case = ROWS[name]
    problem = traced(case[0], *case[1], device=A100)
    first = RECIPE.first_plan(problem)
    assert isinstance(first, Plan), first
    if not golden.holds([source := emulated(RECIPE.render(problem, first))], *compiler.flags):
        check(call(compiler.build(source), problem, case[1]), case)


def test_parts_for_a_gpu_compile(golden: Golden, tmp_path: Path) -> None:
    function, given = PRODUCTS["product and softmax"]
    problem = traced(function, *given, device=H200)
    first = RECIPE.first_plan(problem)
    assert isinstance(first, Plan), first
    source = RECIPE.render(problem, first)
    assert screen_source(source, frozenset({"float32", "ieee"})) is None
    if not golden.holds(for_nvcc([source], H200.architecture)):
        assert compiled_as_it_is(tmp_path, source, H200.architecture) == ""


def test_a_move_is_made_in_every_part_that_has_it() -> None:
    function, given = PRODUCTS["layers"]
    problem = trace(function, *given)
    first = RECIPE.first_plan(problem)
    assert isinstance(first, Plan), first
    moves = {move.name: move.plan.knobs for move in RECIPE.moves(problem, first)}
    assert moves["packing"]["1.pack"] == moves["packing"]["2.pack"] == "AB"
    assert len(moves) == len({str(sorted(knobs.items())) for knobs in moves.values()})


def test_a_move_that_only_its_note_would_tell_is_none() -> None:
    """A part's sweep is not swept here: its move would be judged for the plan's line alone."""
    problem = trace(PRODUCTS["product and softmax"][0], torch.randn(512, 256), torch.randn(384, 256))
    first = first_draft(problem)
    assert isinstance(first, Draft), first
    plan = Plan.read(first.source)
    assert plan is not None
    assert [move.name for move in RECIPE.moves(problem, plan)] == ["packing", "tile sizes"]
    assert isinstance(next_draft(problem, first.source, ("packing",)), Decline)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: torch.linalg.det(F.softmax(x.t() @ x, -1)), "aten.linalg_det"),
        (lambda x: (lambda y: (y.t().relu_(), y.sum(0).mean())[1])(x * 2), "in-place"),
    ],
)
def test_a_part_that_nothing_writes_is_named(function: Callable[..., Any], reason: str) -> None:
    outcome = first_draft(trace(function, X))
    assert isinstance(outcome, Decline) and reason in outcome.reason
