"""Sweeps of the recipes: each variant is the kernel that the recipe would write with those knobs, and it is right."""

from __future__ import annotations

from math import prod

import pytest
import torch
import torch.nn.functional as F
from goldens import Golden
from gpu_kernels import traced
from hypothesis import given
from hypothesis import strategies as st
from traced import Compiler, assert_close, call, trace

from knowledge.compiler.plan import Draft, Plan, swept, within
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.search.first import first_draft
from knowledge.compiler.search.moves import next_draft
from knowledge.compiler.search.recipes import recipes
from tools.sweep import Sweep, read_sweep

SMALL_CACHE = Device(threads=2, simd_floats=16, l2_bytes=64 << 10, l3_bytes=64 << 10)
torch.manual_seed(5)
X, BIAS, VECTOR = torch.randn(3, 9001), torch.randn(9001), torch.randn(1100)
A, B = torch.randn(150, 600), torch.randn(600, 90)


def swish(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.silu(x) + b


CASES = {
    "pointwise": lambda: trace(swish, X, BIAS, device=SMALL_CACHE),
    "product": lambda: trace(torch.matmul, A, B, device=SMALL_CACHE),
    "matrix-vector": lambda: trace(torch.matmul, torch.randn(64, 9001), BIAS, device=SMALL_CACHE),
    "pointwise on a GPU": lambda: traced(F.silu, torch.empty(1 << 23, device="meta")),
}
SWEPT = {
    "pointwise": {"tile": (2048, 512, 1024, 4096, 8192)},
    "product": {"bm": (18, 9, 36), "bk": (200, 300)},
    "matrix-vector": {"rows": (4, 2, 8), "chains": (4, 2, 8)},
    "pointwise on a GPU": {"threads": (256, 128, 512), "packs": (4, 1, 2)},
}


def last_draft(problem: Problem, most: int = 12) -> Draft:
    """After every move, in the recipe's own order, was kept."""
    draft = first_draft(problem)
    assert isinstance(draft, Draft)
    while isinstance(following := next_draft(problem, draft.source, (), max_sweep=most), Draft):
        draft = following
    return draft


def read(draft: Draft) -> tuple[str, Sweep]:
    source, sweep = read_sweep(draft.source, 12)
    assert sweep is not None, f"{draft.move} is no sweep"
    return source, sweep


def code(source: str) -> list[str]:
    """The lines that mean something to the compiler, without what is said behind them."""
    lines = (line.partition("//")[0].rstrip() for line in source.splitlines())
    return [line for line in lines if line]


@pytest.mark.parametrize("name", CASES)
def test_every_variant_is_what_the_recipe_writes_with_those_knobs(name: str) -> None:
    problem = CASES[name]()
    source, sweep = read(last_draft(problem))
    plans = []
    for values in sweep.points():
        variant = sweep.source(source, values)
        plan = Plan.read(variant)
        assert plan is not None
        recipe = next(each for each in recipes() if each.name == plan.recipe)
        assert code(variant) == code(recipe.render(problem, plan))
        plans.append(plan)
    expected = SWEPT[name]
    assert {knob: tuple(dict.fromkeys(plan.knobs[knob] for plan in plans)) for knob in expected} == expected
    assert len(plans) == sweep.count


@pytest.mark.parametrize("name", CASES)
def test_what_a_sweep_has_settled_is_not_swept_again(name: str) -> None:
    problem = CASES[name]()
    source, sweep = read(last_draft(problem))
    *_, last = sweep.points()
    assert not isinstance(next_draft(problem, sweep.source(source, last), ()), Draft)


@pytest.mark.parametrize("name", CASES)
def test_where_sweeps_are_off_there_is_none(name: str) -> None:
    assert read_sweep(last_draft(CASES[name](), most=1).source, 12)[1] is None


def test_variants_of_a_tile_are_right_to_the_last_element(golden: Golden, compiler: Compiler) -> None:
    """Columns that no tile divides, and rows that share an operand."""
    problem = CASES["pointwise"]()
    source, sweep = read(last_draft(problem))
    values = [{"kTile": "512"}, {"kTile": "8192"}]
    sources = [sweep.source(source, each) for each in values]
    if golden.holds(sources, *compiler.flags):
        return
    for kernel in compiler.build_all(sources):
        (got,) = call(kernel, problem, [X, BIAS])
        assert_close(got, swish(X, BIAS), swish(X.double(), BIAS.double()), str(kernel))


def test_variants_of_a_product_are_right(golden: Golden, compiler: Compiler) -> None:
    problem = CASES["product"]()
    source, sweep = read(last_draft(problem))
    *_, last = sweep.points()
    if golden.holds([settled := sweep.source(source, last)], *compiler.flags):
        return
    (got,) = call(compiler.build(settled), problem, [A, B])
    assert_close(got, A @ B, A.double() @ B.double(), "product")


def render(plan: Plan) -> str:
    """A recipe whose `a` stands in one constant, whose `b` in two, and whose `c` changes the number of lines."""
    a, b, c = (int(plan.knobs[name]) for name in "abc")
    return "\n".join(
        [f"// a: {a}", plan.comment(), f"constexpr int kA = {a};  // told", f"x<{b}>();", f"y<{b}>();", *c * ["z();"]]
    )


def test_a_knob_has_to_stand_in_one_constant() -> None:
    plan = Plan("x", {"a": 1, "b": 2, "c": 3})
    text = swept(render, plan, {"a": (4, 5)})
    assert text is not None
    assert "constexpr int kA = 1;  // sweep: 4, 5" in text.splitlines()
    assert "// a: 1" not in text, "what is said of a swept value would be wrong of the others"
    assert Plan.read(text) == plan
    assert Plan.read(text.replace("kA = 1", "kA = 9")) == plan.with_knobs(a=9)
    assert Plan.read(text.replace("int kA = 1", "int kB = 1")) is None, "somebody has taken the constant away"
    assert swept(render, plan, {"b": (4, 5)}) is None
    assert swept(render, plan, {"a": (4,), "c": (4,)}) is None


@given(
    st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 9), unique=True), min_size=1), st.integers(1, 40)
)
def test_as_many_values_as_are_allowed(lists: dict[str, list[int]], most: int) -> None:
    plan = Plan("x", {"a": 1, "b": 2, "c": 3})
    values = {knob: tuple(choices) for knob, choices in lists.items()}
    others = {knob: [each for each in choices if each != plan.knobs[knob]] for knob, choices in values.items()}
    left = within(values, plan, most)
    assert all(choices and list(choices) == others[knob][: len(choices)] for knob, choices in left.items())
    assert prod(len(choices) + 1 for choices in left.values()) <= most
    if prod(len(choices) + 1 for choices in others.values()) <= most:
        assert {knob: len(choices) for knob, choices in others.items() if choices} == {
            knob: len(choices) for knob, choices in left.items()
        }
