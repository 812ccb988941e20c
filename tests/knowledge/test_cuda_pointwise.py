"""Elementwise kernels for GPUs: every operation compiles for the device, every move ends, plans come back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from goldens import Golden
from gpu_kernels import A100, H200, check_on_gpu, compiled, for_nvcc, traced
from pointwise_cases import GROUPS

from harness.screen.source import screen_source
from knowledge.compiler.plan import Draft, Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.pointwise.recipe import PointwiseRecipe
from knowledge.compiler.search.first import first_draft
from knowledge.compiler.search.moves import next_draft

RECIPE = PointwiseRecipe()
FAST = {"vector": 1, "packs": 4, "once": 1, "threads": 512, "grid": 4, "exact": 1}
torch.manual_seed(3)
X, Y = torch.randn(8, 1000), torch.randn(8, 1000)


def views(x: torch.Tensor, row: torch.Tensor, number: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Broadcasts, transposes and slices; x is (2, 3, 76), row (76), number ()."""
    return x + row * number, x.transpose(0, 2) * 2, x[:, 1:, ::2].abs(), x.view(6, 76).t() + row.unsqueeze(1)


def types(x: torch.Tensor, n: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Element types mixed: float32, int64, float64 and bfloat16."""
    flag, d = n > 2, x.double() + 1
    return x + n, n // 2, n % 5, d * x, flag & (x > 0), torch.where(flag, d, x), h.sigmoid() * x, h * 2, n.abs() + flag


def divisions(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Every division that has a cheaper spelling, and one that has none."""
    return x * x.sigmoid(), x / (1 + x.abs()), x / 3, F.hardsigmoid(x), 1 / (x * x + 1), x / x.exp().clamp(min=2), x / x


def exponentials(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What else has a cheaper spelling. Beyond 88 torch's own log1p(exp(x)) overflows, and ours does not."""
    soft = torch.log1p(torch.exp(x.clamp(max=80)))
    return torch.expm1(x), F.selu(x), F.elu(x), F.softplus(x), F.logsigmoid(x), soft


CASES = {
    "divisions": (divisions, [torch.randn(70, 129)]),
    "exponentials": (exponentials, [torch.randn(70, 129)]),
    "flat": (lambda x: x * torch.sigmoid(x), [torch.randn(100_003)]),
    "views": (views, [torch.randn(2, 3, 76), torch.randn(76), torch.tensor(1.5)]),
    "types": (types, [torch.randn(5, 83), torch.arange(415).view(5, 83), torch.randn(5, 83).bfloat16()]),
    "diagonal": (lambda v, x: torch.diag(v) @ x, [torch.randn(64), torch.randn(64, 100)]),
    "diagonal behind": (lambda v, x: (x @ torch.diag(v)).relu(), [torch.randn(64), torch.randn(100, 64)]),
}  # fmt: skip


def rendered(problem: Problem, knobs: dict[str, int]) -> str:
    """The kernel under some knobs."""
    plan = RECIPE.first_plan(problem)
    assert isinstance(plan, Plan), plan
    return RECIPE.render(problem, plan.with_knobs(**knobs))


@pytest.mark.parametrize("device", [A100, H200], ids=lambda device: device.architecture)
def test_every_operation_compiles_for_the_device(golden: Golden, tmp_path: Path, device: object) -> None:
    functions = [function for group in GROUPS.values() for function in group.values()]
    every = traced(lambda x, y: tuple(function(x, y) for function in functions), X, Y)
    others = [traced(function, *given) for function, given in CASES.values()]
    sources = [rendered(every, FAST)] + [rendered(problem, knobs) for problem in others for knobs in ({}, FAST)]
    # The large kernel takes most of the time; one architecture of it is enough.
    chosen = sources if device is H200 else sources[1:]
    if not golden.holds(for_nvcc(chosen, device.architecture)):
        assert compiled(tmp_path, chosen, device.architecture) == ""  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", CASES)
def test_moves_end_and_plans_come_back(name: str) -> None:
    function, given = CASES[name]
    problem = traced(function, *given)
    draft, plans = first_draft(problem), []
    while isinstance(draft, Draft):
        plan = Plan.read(draft.source)
        assert plan is not None and plan.recipe == "pointwise" and plan not in plans
        assert RECIPE.render(problem, plan) == draft.source
        assert screen_source(draft.source, frozenset({"float32", "float64", "bfloat16", "ieee"})) is None
        plans.append(plan)
        draft = next_draft(problem, draft.source, ())
    assert len(plans) <= 8


def test_the_first_kernel_reads_by_vectors() -> None:
    first = first_draft(traced(CASES["flat"][0], torch.randn(64, 1000)))
    assert isinstance(first, Draft)
    assert "kVector = 4;" in first.source and "with vector access" in first.why


def test_divisions_that_lose_nothing_become_products() -> None:
    def arithmetic(function: object, *given: torch.Tensor) -> str:
        problem = traced(function, *given)  # type: ignore[arg-type]
        text = rendered(problem, {"exact": 1})
        return text[text.index("inline void element") : text.index("// end arithmetic")]

    many = arithmetic(divisions, X)
    assert many.count("math::reciprocal(") == 4 and many.count(" / ") == 1
    assert "* 0.3333333333333333f;" in many
    for kept in (lambda x, y: x / y, lambda x, y: x / (1 - y.abs()), lambda x, y: y / (x + 1), lambda x, y: x / 1e-38):
        assert " / " in arithmetic(kept, X, Y)
    powers = arithmetic(exponentials, X)
    assert powers.count("math::expm1(") == 1 and powers.count("math::log1p_exp(") == 3 and "std::log1p" not in powers
    doubled = arithmetic(lambda x: x / (1 + x.abs()), X.double())
    assert "reciprocal" not in doubled and " / " in doubled


def test_divisions_make_the_second_move() -> None:
    problem = traced(lambda x: x * torch.sigmoid(x), torch.empty(4096, 393_216, device="meta"))
    drafted = next_draft(problem, rendered(problem, {"vector": 1}), ())
    assert isinstance(drafted, Draft) and drafted.move == "cheaper exact math" and "math::reciprocal" in drafted.source
    plain = traced(torch.relu, torch.empty(4096, 393_216, device="meta"))
    moved = next_draft(plain, rendered(plain, {"vector": 1}), ())
    assert isinstance(moved, Draft) and moved.move != "cheaper exact math"


@pytest.mark.parametrize(
    ("bottleneck", "move"),
    [(None, "cache hints"), ("latency", "loads in flight"), ("launch", "block size"), ("on_chip", "cache hints")],
)
def test_a_profile_chooses_among_the_moves(bottleneck: str | None, move: str) -> None:
    problem = traced(torch.relu, torch.empty(4096, 393_216, device="meta"))
    source = rendered(problem, {"vector": 1})
    drafted = next_draft(problem, source, (), bottleneck)
    assert isinstance(drafted, Draft) and drafted.move == move
    tried = next_draft(problem, source, ("loads in flight", "cache hints"), bottleneck)
    assert isinstance(tried, Draft) and tried.move == "block size"
    plain = next_draft(problem, rendered(problem, {}), (), "latency")
    assert isinstance(plain, Draft) and plain.move == "vector access"


def test_packs_narrow_where_rows_do_not_divide() -> None:
    for columns, width in ((80, 4), (82, 2), (81, 1)):
        text = rendered(traced(lambda x, y: x + y, torch.randn(6, columns), torch.randn(6, 1)), {"vector": 1})
        assert f"kVector = {width};" in text


def test_offsets_beyond_two_to_the_31_are_64_bits_wide() -> None:
    problem = traced(lambda x: x * 2, torch.empty(70_000, 40_000, device="meta"))
    assert "using Index = int64_t;" in rendered(problem, {"vector": 1})
    assert "using Index = int;" in rendered(traced(lambda x: x * 2, torch.empty(4096, 393_216, device="meta")), {})


@pytest.mark.gpu
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e-3])
@pytest.mark.parametrize("function", [divisions, exponentials])
def test_cheaper_arithmetic_is_float32_s(tmp_path: Path, function: Callable[..., Any], scale: float) -> None:
    problem = traced(function, torch.randn(1 << 16))
    check_on_gpu(tmp_path, problem, rendered(problem, {"vector": 1, "exact": 1}), function, scale)


@pytest.mark.gpu
@pytest.mark.parametrize("knobs", [{}, {"vector": 1, "packs": 2}, FAST], ids=["plain", "vector", "fast"])
@pytest.mark.parametrize("name", CASES)
def test_right_on_the_gpu(tmp_path: Path, name: str, knobs: dict[str, int]) -> None:
    function, given = CASES[name]
    problem = traced(function, *given)
    check_on_gpu(tmp_path, problem, rendered(problem, knobs), function)
