"""Row programs, executed sweep by sweep with torch: each value is computed where and when the program says."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from evaluation import computed, evaluate, reduced
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from traced import trace

from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.passes.row_program import RowProgram, Target
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.strided_reading import lower_problem

Forward = Callable[..., Any]


class Execution:
    """The kernel's loops in torch: rows together, columns together, what is flat with one element a row.

    A value that is needed before it is known, or a flat one that is not, is an error here as it would be in C++.
    """

    def __init__(self, problem: Problem, tensors: dict[str, torch.Tensor], program: RowProgram) -> None:
        self.program, self.tensors = program, tensors
        self.rows = [dim for dim in range(len(program.shape)) if dim not in program.dims]
        self.row: dict[int, torch.Tensor] = {}
        self.totals: dict[int, torch.Tensor] = {}
        self.stored: dict[str, torch.Tensor] = {}
        self.kept: dict[int, torch.Tensor] = {}
        self._row_code(0)
        for sweep in range(program.sweeps):
            self._sweep(sweep)
            self._row_code(sweep + 1)
        self.outputs = [self.stored[output.name].reshape(output.shape) for output in problem.outputs]

    def _load(self, node: Node) -> torch.Tensor:
        """Every element over the whole shape, its columns last."""
        tensor = self.tensors[node.op]
        wide = tensor.as_strided(self.program.shape, node.strides, tensor.storage_offset() + node.offset)
        return self._arranged(wide)

    def _arranged(self, wide: torch.Tensor) -> torch.Tensor:
        count = prod(wide.shape[dim] for dim in self.rows)
        return wide.permute(*self.rows, *self.program.dims).reshape(count, -1)

    def _row_code(self, level: int) -> None:
        for node in self.program.nodes:
            if node.kind == "gathered" and self.program.level(node) == level:
                self.row[id(node)] = self.totals[id(node.args[0])].unsqueeze(-1)
        for node in self.program.row_nodes(level):
            if node.kind == "load":
                columns = self._load(node)
                assert torch.equal(columns, columns[:, :1].expand_as(columns))
                self.row[id(node)] = columns[:, :1]
            else:
                self.row[id(node)] = computed(node, [self._number(arg) for arg in node.args])
        for target in self.program.row_stores(level):
            self._store(target, self._number(target.node))

    def _number(self, node: Node) -> torch.Tensor:
        if node.uniform and node.kind == "const":
            exact = torch.tensor(node.payload[0], dtype=torch.float64)
            return exact.to(getattr(torch, node.dtype))
        return self.row[id(node)]

    def _sweep(self, sweep: int) -> None:
        columns: dict[int, torch.Tensor] = {}

        def value(node: Node) -> torch.Tensor:
            return columns[id(node)] if id(node) in columns else self._number(node)

        available = frozenset(self.kept)
        for node in self.program.cone(self.program.wanted(sweep), available):
            if id(node) in available:
                columns[id(node)] = self.kept[id(node)]
            elif node.kind == "load":
                columns[id(node)] = self._load(node)
            else:
                columns[id(node)] = computed(node, [value(arg) for arg in node.args])
            if node in self.program.kept:
                self.kept[id(node)] = columns[id(node)]
        count = prod(self.program.shape[dim] for dim in self.program.dims)
        for each in self.program.reductions_of(sweep):
            wide = value(each.args[0])
            self.totals[id(each)] = self._total(each, wide.expand(wide.shape[0] if wide.dim() else 1, count))
        for target in self.program.stores_of(sweep):
            self._store(target, value(target.node).expand(-1, count))

    def _total(self, each: Node, wide: torch.Tensor) -> torch.Tensor:
        flat = Node("reduce", each.op, each.dtype, tuple(wide.shape), each.args, (1,))
        return reduced(flat, wide)

    def _store(self, target: Target, value: torch.Tensor) -> None:
        """Into memory of the output's strides: over the whole shape, or over rows where the strides stand still."""
        shape = self.program.shape
        memory = torch.full(
            (sum((e - 1) * s for e, s in zip(target.tensor.shape, target.tensor.strides, strict=True)) + 1,), torch.nan
        )
        where = torch.arange(memory.numel()).as_strided(shape, target.tensor.strides)
        memory[self._arranged(where)] = value.expand(self._arranged(where).shape).to(memory.dtype)
        self.stored[target.tensor.name] = memory.as_strided(target.tensor.shape, target.tensor.strides)


def executed(forward: Forward, given: list[torch.Tensor]) -> RowProgram:
    """The program of a forward, which has been executed and found right. Raises `UnwritableError` where it has none."""
    problem = trace(forward, *given)
    lowered = lower_problem(problem)
    program = RowProgram(lowered)
    tensors = {each.name: tensor for each, tensor in zip(problem.inputs, given, strict=True)}
    mine = Execution(problem, tensors, program).outputs
    for got, wanted in zip(mine, evaluate(problem, lowered, tensors), strict=True):
        torch.testing.assert_close(got.reshape(wanted.shape), wanted.float(), rtol=1e-5, atol=1e-5, equal_nan=True)
    return program


ELEMENTS: dict[str, Forward] = {
    "as it is": lambda x, b: x,
    "doubled": lambda x, b: x * 2,
    "exponential": lambda x, b: torch.exp(x),
    "with the other": lambda x, b: x + b,
    "bounded": lambda x, b: torch.where(x > 0, x, b),
    "hyperbolic": lambda x, b: torch.tanh(x) * b,
}
TOTALS: dict[str, Callable[..., torch.Tensor]] = {
    "sum": lambda x, dims: x.sum(dims, keepdim=True),
    "mean": lambda x, dims: x.mean(dims, keepdim=True),
    "largest": lambda x, dims: x.amax(dims, keepdim=True),
    "smallest": lambda x, dims: x.amin(dims, keepdim=True),
    "spread": lambda x, dims: x.var(dims, keepdim=True, unbiased=False),
    "logarithm": lambda x, dims: x.logsumexp(dims, keepdim=True),
}
USES: dict[str, Forward] = {
    "less": lambda x, total: x - total,
    "divided": lambda x, total: x / (total.abs() + 1),
    "the total": lambda x, total: total * 2,
    "the total alone": lambda x, total: total.squeeze(),
    "times": lambda x, total: x * torch.tanh(total),
}


@st.composite
def forwards(draw: st.DrawFn) -> tuple[Forward, list[torch.Tensor]]:
    """Reductions over the same dimensions, one after the other, each used by what follows; one to three outputs."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    dims = tuple(draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    narrow = tuple(draw(st.sampled_from((extent, 1))) for extent in shape)
    order = draw(st.permutations(range(len(shape))))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    x = torch.randn([shape[dim] for dim in order], generator=generator)
    x = x.permute([order.index(dim) for dim in range(len(shape))])
    b = torch.randn(narrow, generator=generator)
    rounds = draw(
        st.lists(
            st.tuples(*(st.sampled_from(sorted(each)) for each in (ELEMENTS, TOTALS, USES))), min_size=1, max_size=3
        )
    )
    returned = draw(st.sets(st.integers(0, len(rounds) - 1), min_size=1))

    def forward(x: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made: list[torch.Tensor] = []
        value = x
        for element, total, use in rounds:
            value = ELEMENTS[element](value.expand(shape) if value.dim() == len(shape) else x, b)
            value = USES[use](value, TOTALS[total](value.expand(shape), dims))
            made.append(value)
        return tuple(made[k] + 0.0 for k in sorted(returned))

    return forward, [x, b]


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(forwards())
def test_every_value_is_computed_where_it_is_known(case: tuple[Forward, list[torch.Tensor]]) -> None:
    try:
        program = executed(*case)
    except UnwritableError as refusal:
        event(f"declined: {str(refusal).split('(')[0]}")
        return
    event(f"{program.sweeps} sweeps")


X, B = torch.randn(5, 9, generator=torch.Generator().manual_seed(2)), torch.linspace(-1, 1, 9)


@pytest.mark.parametrize(
    ("function", "sweeps", "kept"),
    [
        (lambda x, b: x.sum(-1), 1, []),
        (lambda x, b: (x.sum(-1), x.amax(-1), x.exp().sum(-1)), 1, []),
        (lambda x, b: x - x.mean(-1, keepdim=True), 2, []),
        (lambda x, b: F.softmax(x + b, -1), 3, ["exp"]),
        (lambda x, b: F.log_softmax(x, -1), 3, []),
        (lambda x, b: torch.tanh(x) / torch.tanh(x).sum(-1, keepdim=True), 2, ["tanh"]),
        (lambda x, b: F.softmax(2 * torch.tanh(x), -1), 3, ["mul", "exp"]),
        (lambda x, b: F.layer_norm(x, (9,), b, b), 3, []),
        (lambda x, b: (x.amax(-1), x * 2), 1, []),
        (lambda x, b: (x - x.amax(-1, keepdim=True)).exp().sum(-1), 2, []),
    ],
)
def test_a_row_is_gone_over_as_often_as_it_must_be(function: Forward, sweeps: int, kept: list[str]) -> None:
    program = executed(function, [X, B])
    assert program.sweeps == sweeps
    assert [node.op for node in program.kept] == kept


@pytest.mark.parametrize(
    ("function", "apart"),
    [
        (lambda x: x.softmax(-1), False),
        (lambda x: x.softmax(1), True),
        (lambda x: x.sum((0, 2)), True),
        (lambda x: F.group_norm(x, 2), False),
        (lambda x: F.group_norm(x, 2, x[0, :, 0], x[1, :, 0]), True),
    ],
)
def test_columns_lie_apart_where_no_register_holds_neighbours(function: Forward, apart: bool) -> None:
    assert RowProgram(lower_problem(trace(function, torch.randn(3, 4, 9)))).steps_apart == apart


def test_a_sum_below_a_maximum_belongs_to_the_maximum_s_sweep_where_it_may() -> None:
    lowered = lower_problem(trace(lambda x: F.softmax(x, -1), X))
    plain, online = RowProgram(lowered), RowProgram(lowered, online=True)
    assert (plain.sweeps, online.sweeps) == (3, 2)
    largest, total = online.reductions
    assert online.maximum_of == {id(total): largest} and not plain.maximum_of
    assert online.level(total) == online.level(largest) == 0
    assert online.wanted(0) == (largest.args[0],)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.log(x.exp().sum(-1)) + x.amax(-1),
        lambda x: (x - x.amin(-1, keepdim=True)).exp().sum(-1),
        lambda x: (x * 2 - x.amax(-1, keepdim=True)).exp().sum(-1),
        lambda x: (x - x.amax(-1, keepdim=True)).exp().amax(-1),
        lambda x: (x.amax(-1, keepdim=True) - x).exp().sum(-1),
    ],
)
def test_no_other_sum_does(function: Forward) -> None:
    assert not RowProgram(lower_problem(trace(function, X)), online=True).maximum_of


def test_rows_and_columns_are_merged_where_memory_allows_it() -> None:
    image = torch.randn(2, 3, 4, 5)
    program = executed(lambda x: x.sum((2, 3)), [image])
    assert (program.rows.columns, program.columns.columns) == (6, 20)
    program = executed(lambda x: x.sum((0, 2, 3)), [image])
    assert (program.rows.extents, program.columns.extents) == ((3,), (20, 2))


def test_indices_are_counted_in_the_order_of_the_dimensions() -> None:
    x = torch.randn(4, 3, 2).permute(2, 1, 0)
    program = executed(lambda x: x.argmax(), [x])
    assert program.columns.extents[-1] == 2, "the first dimension stays the slowest, whatever lies in memory"


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x * 2, "without a reduction"),
        (lambda x: (x.sum(0), x.sum(1)), "different dimensions"),
        (lambda x: (x.sum(1), x[:3] + 1), "neither a row nor"),
        (lambda x: x - x.sum(1), "outside of its row"),
        (lambda x: x.sum(1)[1:], "neither a row nor"),
        (lambda x: x[:, :0].sum(1), "without elements"),
    ],
)
def test_what_is_no_row_program_says_why(function: Forward, reason: str) -> None:
    with pytest.raises(UnwritableError, match=reason):
        executed(function, [torch.randn(5, 5)])
