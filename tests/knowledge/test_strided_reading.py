"""Values read over strides: what the schedules of pointwise graphs and of rows are given, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from evaluation import evaluate
from traced import trace

from knowledge.compiler.ir.expressions import Node, UnwritableError, postorder
from knowledge.compiler.lower.lowering import Lowered
from knowledge.compiler.schedule.strided_reading import lower_problem

Forward = Callable[..., Any]
X, IMAGES = torch.randn(4, 6), torch.randn(2, 4, 6, 8)


def reading(forward: Forward, *given: torch.Tensor) -> Lowered:
    """What is read off a forward, which means what torch computes."""
    problem = trace(forward, *given)
    made = lower_problem(problem)
    wanted = forward(*given)
    tensors = {each.name: tensor for each, tensor in zip(problem.inputs, given, strict=True)}
    for got, each in zip(
        evaluate(problem, made, tensors), wanted if isinstance(wanted, tuple) else (wanted,), strict=True
    ):
        torch.testing.assert_close(got, each, rtol=1e-5, atol=1e-5)
    return made


def nodes(made: Lowered, kind: str) -> list[Node]:
    return [node for node in postorder(tuple(node for _, node in made.outputs)) if node.kind == kind]


LOADS: dict[str, tuple[Forward, torch.Tensor, list[tuple[int, ...]]]] = {
    "transposed": (lambda x: x.t() * 2, X, [(0, 1, 6)]),
    "a slice": (lambda x: x[1:, ::2] * 2, X, [(6, 6, 2)]),
    "backwards": (lambda x: x.flip(1) * 2, X, [(5, 6, -1)]),
    "along a diagonal": (lambda x: torch.einsum("ii->i", x[:, :4]) * 2, X, [(0, 7)]),
    "windows": (lambda x: x.unfold(1, 2, 2) * 2, X, [(0, 6, 2, 1)]),
    "repeated, so a loop is two": (lambda x: x.repeat(1, 3) * 2, X, [(0, 6, 0, 1)]),
    "each repeated": (lambda x: x.repeat_interleave(2, 1) * 2, X, [(0, 6, 1, 0)]),
    "turned and merged": (lambda x: x.t().reshape(-1) * 2, X, [(0, 1, 6)]),
    "every second": (lambda x: F.interpolate(x, scale_factor=0.5), IMAGES, [(0, 192, 48, 16, 2)]),
    "taps of windows": (lambda x: F.max_pool1d(x, 2), X, [(0, 6, 2), (1, 6, 2)]),
}


@pytest.mark.parametrize("name", LOADS)
def test_an_index_is_an_offset_and_a_step_a_loop(name: str) -> None:
    function, given, payloads = LOADS[name]
    made = reading(function, given)
    assert [node.payload for node in nodes(made, "load")] == payloads


# The shape that rows and columns have in common, and the columns among its dimensions.
ROWS: dict[str, tuple[Forward, torch.Tensor, tuple[int, ...], tuple[int, ...]]] = {
    "softmax": (lambda x: F.softmax(x, 0), X, (4, 6), (0,)),
    "groups of channels": (lambda x: F.group_norm(x, 2).relu(), IMAGES, (2, 2, 2, 6, 8), (2, 3, 4)),
    "one image of those": (lambda x: F.group_norm(x[:1], 2)[0] * 2, IMAGES, (2, 2, 6, 8), (1, 2, 3)),
    "rows merged before": (lambda x: F.softmax(x.flatten(0, 2), -1).view(x.shape) + x, IMAGES, (48, 8), (1,)),
    "shares": (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), IMAGES, (2, 4, 3, 2, 2, 4), (3, 5)),
    "of equal extents": (lambda x: x.mean((2, 3), keepdim=True) + x, torch.randn(3, 3, 3, 3), (3, 3, 3, 3), (2, 3)),
    "repeated": (lambda x: x.repeat_interleave(2, 1).sum(1), X, (4, 6, 2), (1, 2)),
}


@pytest.mark.parametrize("name", ROWS)
def test_sums_and_outputs_have_one_shape(name: str) -> None:
    function, given, shape, dims = ROWS[name]
    found = nodes(reading(function, given), "reduce")
    assert found and {(node.shape, node.payload) for node in found} == {(shape, dims)}


def test_what_is_read_in_two_shapes_is_one_load() -> None:
    made = reading(lambda x: (x.sum((1, 2, 3), keepdim=True) + x).relu(), IMAGES[:1])
    assert len(nodes(made, "load")) == 1


def test_a_place_is_found_in_one_sweep_beside_what_lies_there() -> None:
    made = reading(lambda x: x.max(1), X)
    assert [node.op for node in nodes(made, "reduce")] == ["amax", "argmax"]


@pytest.mark.parametrize("function", [lambda x: x[:, :1].sum(1), lambda x: F.softmax(x[:1], 0)])
def test_a_sum_of_one_element_is_none(function: Forward) -> None:
    assert not nodes(reading(function, X), "reduce")


def test_what_nobody_uses_is_not_looked_at() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        x.sum(0), x.cumsum(1)
        return x - x.mean(1, keepdim=True)

    assert "cumsum" in str(trace(forward, X).ops)
    assert len(nodes(reading(forward, X), "reduce")) == 1


REFUSED: dict[str, tuple[Forward, str]] = {
    "padding": (lambda x: F.avg_pool1d(x, 3, 1, 1), "missing"),
    "a choice": (lambda x: torch.diag(x[0]) * 2, "where an element is"),
    "a remainder": (lambda x: F.interpolate(x[None], size=4), "no strides reach"),
    "dimensions that do not nest": (lambda x: x.t().reshape(8, 3) + 1, "no strides reach"),
    "pieces of different sizes": (lambda x: x[:, :5].t().reshape(10, 2)[:9] + 1, "cuts a dimension unevenly"),
    "an operation that computes places": (lambda x: x.gather(0, x.long() * 0), "aten.gather"),
    "another row": (lambda x: x[:, :4] - x[:, :4].sum(1), "outside of its row"),
    "two ways along": (lambda x: x.sum(0) + x.sum(1).sum(), "different dimensions"),
    "part of the rows": (lambda x: x.sum(1)[1:], "neither a row"),
    "nothing": (lambda x: x[:0] + 1, "without elements"),
    "sums of nothing": (lambda x: x[:, :0].sum(1), "without elements"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_strides_cannot_say_is_refused_by_name(name: str) -> None:
    function, reason = REFUSED[name]
    problem = trace(function, X)
    for _ in range(2):  # a refusal is kept, too
        with pytest.raises(UnwritableError, match=reason):
            lower_problem(problem)
