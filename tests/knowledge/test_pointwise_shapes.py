"""Pointwise kernels over everything but plain equal shapes: broadcasts, views, other types, scalars, several shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from goldens import Golden
from torch import nn
from traced import Compiler, assert_close, call, trace

from knowledge.compiler.plan import Decline, Plan
from knowledge.compiler.problem import Problem, Scalar
from knowledge.compiler.schedule.pointwise.recipe import PointwiseRecipe

RECIPE = PointwiseRecipe()
FAST = {"threads": 1, "lanes": 8, "exact": 1, "streaming": 1, "unroll": 4, "tile": 64}
torch.manual_seed(11)


def views(x: torch.Tensor, row: torch.Tensor, number: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Float32 in many arrangements; x is (2, 3, 77), row (77), number ()."""
    return (
        x + row * number,
        x.transpose(0, 2) * 2,
        x[:, 1:, ::2].sqrt(),
        (x.permute(2, 0, 1).contiguous() - 1).permute(1, 2, 0) + x,
        x.view(6, 77).t() + row.unsqueeze(1),
        F.glu(x[:, :, :76]),
        x[:, 1] / torch.tanh(row),
        x.unsqueeze(1).expand(2, 4, 3, 77) + 1,
        torch.where(number > 0, x, -x).reshape(-1),
        torch.chunk(x, 3, 1)[1].squeeze(1) * row,
        torch.zeros_like(x),
        row.expand(2, 3, 77).clone(),
    )


def types(x: torch.Tensor, n: torch.Tensor, d: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Element types mixed: x float32, n int64, d float64, all (5, 83)."""
    flag = n > 2
    return (
        x + n, n * 3 - 1, n // 2, n % 5, n / 4, d * x, d.exp(), flag & (x > 0), flag.float(), ~flag, n.abs() + flag,
        torch.where(flag, d, x), n.to(torch.int32) * 2, (n == 3).to(torch.int64) + n, n.clamp(-2, 2), d > x, n**2,
        torch.maximum(n, -n), x.double().tanh(), d.float().sigmoid(),
    )  # fmt: skip


def halves(h: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Float16 and bfloat16, computed in float32 in between."""
    return h * 2 + 1, F.gelu(h), g.sigmoid(), h.float() * g, (h > 0.5) & (g < 1)


MIXED = torch.arange(-207, 208).view(5, 83)
CASES: dict[str, tuple[Callable[..., Any], list[torch.Tensor]]] = {
    "views": (views, [torch.rand(2, 3, 77) + 0.1, torch.randn(77) + 3, torch.tensor(1.5)]),
    "types": (types, [torch.randn(5, 83), MIXED, torch.randn(5, 83, dtype=torch.float64)]),
    "halves": (halves, [torch.randn(5, 83).half(), torch.randn(5, 83).bfloat16()]),
}


def rendered(problem: Problem, knobs: dict[str, int]) -> str:
    """The kernel under some knobs."""
    first = RECIPE.first_plan(problem)
    assert isinstance(first, Plan), first
    return RECIPE.render(problem, first.with_knobs(**knobs))


@pytest.mark.parametrize("name", CASES)
def test_arrangements_and_types(golden: Golden, compiler: Compiler, name: str) -> None:
    function, given = CASES[name]
    problem = trace(function, *given)
    reference = function(*given)
    oracle = function(*(each.double() if each.is_floating_point() else each for each in given))
    sources = [rendered(problem, {}), rendered(problem, FAST)]
    if golden.holds(sources, *compiler.flags):
        return
    for kernel in compiler.build_all(sources):
        for k, (got, theirs, exact) in enumerate(zip(call(kernel, problem, given), reference, oracle, strict=True)):
            assert_close(got, theirs, exact, f"{name}[{k}]")


class Block(nn.Module):
    """Parameters and buffers with dotted names; no layer of its own that is not elementwise."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.act = nn.PReLU(3)
        self.switch = nn.Parameter(torch.randn(1, 3, 1, 1))
        self.norm.running_var.uniform_(0.5, 2)
        self.norm.running_mean.normal_()
        self.eval()

    def forward(self, x: torch.Tensor, run: torch.Tensor) -> torch.Tensor:
        return self.act(self.norm(x)) * self.switch + run


def test_parameters_buffers_and_names_that_are_keywords(golden: Golden, compiler: Compiler) -> None:
    module, x, run = Block(), torch.randn(4, 3, 5, 7), torch.randn(7)
    problem = trace(module, x, run)
    state = {name: each.detach() for name, each in module.state_dict().items()}
    with torch.no_grad():
        expected, oracle = module(x, run), module.double()(x.double(), run.double())
    sources = [rendered(problem, {}), rendered(problem, {"lanes": 16})]
    if golden.holds(sources, *compiler.flags):
        return
    for kernel in compiler.build_all(sources):
        (got,) = call(kernel, problem, [x, run], state)
        assert_close(got, expected, oracle, "block")


def test_a_number_passed_by_value(golden: Golden, compiler: Compiler) -> None:
    x = torch.randn(3, 50)
    traced = trace(lambda a, b: torch.exp(a * b), x, torch.tensor(2.0))
    scalar = Scalar(name="b", type="float", value=2.0)
    problem = traced.model_copy(update={"inputs": (traced.inputs[0], scalar)})
    sources = [rendered(problem, {}), rendered(problem, FAST)]
    if golden.holds(sources, *compiler.flags):
        return
    for kernel in compiler.build_all(sources):
        (got,) = call(kernel, problem, [x, -0.5])
        assert_close(got, torch.exp(x * -0.5), torch.exp(x.double() * -0.5), "scalar")


def test_a_tensor_of_another_shape_stride_or_type_is_refused(golden: Golden, compiler: Compiler) -> None:
    x = torch.randn(6, 8)
    problem = trace(torch.exp, x)
    if golden.holds([source := rendered(problem, {})], *compiler.flags):
        return
    kernel = compiler.build(source)
    for wrong in (torch.randn(6, 9), torch.randn(8, 6).t(), x.double(), torch.randn(48)):
        with pytest.raises(ValueError, match="another shape, strides or element type"):
            call(kernel, problem, [wrong])


def test_in_place_writes_change_what_comes_later(golden: Golden, compiler: Compiler) -> None:
    def accumulate(x: torch.Tensor) -> torch.Tensor:
        total = x * 2
        total += 1
        total.mul_(x)
        return total + total.clone()

    x = torch.randn(40)
    problem = trace(accumulate, x)
    if golden.holds([source := rendered(problem, {})], *compiler.flags):
        return
    (got,) = call(compiler.build(source), problem, [x])
    assert_close(got, accumulate(x), accumulate(x.double()), "in place")


def test_in_place_writes_through_a_view_are_declined() -> None:
    def through(x: torch.Tensor) -> torch.Tensor:
        total = x * 2
        total.view(-1).add_(1)
        return total

    outcome = RECIPE.first_plan(trace(through, torch.randn(4, 4)))
    assert isinstance(outcome, Decline) and "in-place" in outcome.reason


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: torch.cumsum(x, 0), "aten.cumsum"),
        (lambda x: (x.t() * 2).reshape(8, 3), "no strides reach"),
        (lambda x: F.dropout(x, 0.5, training=True), "random"),
        (lambda x: x.sum(), "aten.sum"),
    ],
)
def test_what_cannot_be_one_pass_is_declined_by_name(function: Callable[..., Any], reason: str) -> None:
    outcome = RECIPE.first_plan(trace(function, torch.randn(4, 6)))
    assert isinstance(outcome, Decline)
    assert reason in outcome.reason
