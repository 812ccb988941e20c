"""On a processor: kernels that go place by place, full registers beside 8-byte indices, rows that are looked up."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from itertools import combinations
from random import Random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from goldens import Golden
from test_everyday import TASKS
from test_everyday import posed as everyday
from traced import Compiler, assert_close, call, scaled_error, trace

from knowledge.compiler.ir.dtypes import BYTES
from knowledge.compiler.ir.nodes import reads
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.loops.recipe import LoopsRecipe, compiled

generator = torch.Generator().manual_seed(5)


def rand(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=generator)


def whole(below: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, below, shape, generator=generator)


def looked_up_norm(x: torch.Tensor, table: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    y = F.softplus(x) - table[at].unsqueeze(-1)
    return y / (1e-3 + y.pow(2).mean(-1, keepdim=True).sqrt())


def rows_of_a_table(table: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(table[at] + table[0], table.shape[-1:])


def turned(x: torch.Tensor, cos: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return x * cos[at].unsqueeze(1) + torch.cat((-b, a), -1)


def columns(x: torch.Tensor) -> torch.Tensor:
    y = x.exp()
    return y / y.sum(1, keepdim=True)


def fewer_rows(x: torch.Tensor) -> torch.Tensor:
    """The second loop ends before the first one's, whose rows the third needs."""
    mean = x.exp().mean(1, keepdim=True)
    return (x[:22] - mean[:22]).cumsum(1).sum(1) * mean.amax()


FORWARDS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "looked up, then a norm": (looked_up_norm, (rand(5, 9, 45), rand(7), whole(7, 5, 9))),
    "rows of a table": (rows_of_a_table, (rand(30, 52), whole(30, 6, 11))),
    "turned bfloat16": (turned, (rand(2, 3, 9, 44).bfloat16(), rand(20, 44).bfloat16(), whole(20, 2, 9))),
    "turned float16": (turned, (rand(2, 3, 9, 44).half(), rand(20, 44).half(), whole(20, 2, 9))),
    "columns": (columns, (rand(6, 40, 75),)),
    "few columns": (columns, (rand(600, 4, 3),)),
    "divided bytes": (lambda x, y: x // y + x % y, (whole(99, 9, 45).char(), whole(9, 9, 45).char() + 1)),
    "divided int32": (lambda x, y: x // y + x % y, (whole(99, 9, 45).int(), whole(9, 9, 45).int() + 1)),
    "several norms": (lambda x, w: F.layer_norm(F.layer_norm(x, (37,)) * w, (37,)), (rand(41, 37), rand(37))),
    "fewer rows": (fewer_rows, (rand(24, 40),)),
    "no rows": (lambda x: x.softmax(2).cumsum(2), (rand(6, 0, 5),)),
    "empty rows": (lambda x: x.softmax(1).cumsum(1), (rand(6, 7, 0),)),
    "a running sum, then a row": (lambda x: (x.cumsum(1) * 2).softmax(1), (rand(33, 50),)),
}


def posed(name: str) -> tuple[Problem, str]:
    function, given = FORWARDS[name]
    problem, recipe = trace(function, *given), LoopsRecipe()
    return problem, recipe.render(problem, recipe.first_plan(problem))


def test_kernels_that_go_place_by_place_are_right(golden: Golden, compiler: Compiler) -> None:
    made = {name: posed(name) for name in FORWARDS}
    sources = [source for _, source in made.values()]
    if golden.holds(sources, *compiler.flags):
        return
    for (name, (problem, _)), kernel in zip(made.items(), compiler.build_all(sources), strict=True):
        function, given = FORWARDS[name]
        (got,) = call(kernel, problem, given)
        exact = function(*(each.double() if each.is_floating_point() else each for each in given))
        assert_close(got, function(*given), exact, name)


def test_what_passes_between_kernels_of_one_place_is_a_threads_own() -> None:
    problem, source = posed("looked up, then a norm")
    assert "Arena const" not in source and source.count("for (int64_t task = 0; task < 45; ++task)") == 1
    assert source.count("math::exp(") == 1, "a row that stays in the cache is computed once"
    (group,) = compiled(problem).groups
    assert [axis.extent for axis in group.apart] == [5, 9]


def test_registers_keep_along_contiguous_columns_where_rows_go_the_other_way() -> None:
    (group,) = compiled(posed("columns")[0]).groups
    assert [axis.extent for axis in group.apart] == [6]


def test_products_stay_kernels_of_their_own() -> None:
    function = lambda x, w, v: (x @ w + v).softmax(-1) @ w  # noqa: E731
    problem = trace(function, rand(3, 16, 20), rand(20, 20), rand(20))
    groups = compiled(problem).groups
    assert [len(group.numbers) for group in groups] == [4]


def test_rows_of_a_table_are_read_as_registers_and_indices_take_no_lanes() -> None:
    _, source = posed("rows of a table")
    assert "kLanes = 8;" in source and "gathered<vfloat>(" not in source
    _, source = posed("turned bfloat16")
    assert "inside(int32_t(" in source and "lanewise(" not in source


def in_memory(problem: Problem) -> Iterator[tuple[str, str]]:
    """Two tensors of one group, by name, that have memory in common."""
    made = compiled(problem)
    for group in made.groups:
        nests = [made.nests[number] for number in group.numbers]
        used = {each.name: each for nest in nests for each in (
            *(store.tensor for store in nest.stores), *map(nest.tensor, reads(*nest.bodies)))}  # fmt: skip
        for one, other in combinations([each for name, each in used.items() if name in made.fused.places], 2):
            starts = [made.fused.places[each.name] for each in (one, other)]
            ends = [start + each.numel * BYTES[each.dtype] for start, each in zip(starts, (one, other), strict=True)]
            if starts[0] < ends[1] and starts[1] < ends[0]:
                yield one.name, other.name


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["biased windows", "conformer convolution"])
def test_memory_of_what_is_read_is_not_used_again_before_all_places_are_done(name: str) -> None:
    assert name in TASKS and compiled(everyday(name, "cpu")).groups
    assert [*in_memory(everyday(name, "cpu"))] == []


STEPS: tuple[Callable[[torch.Tensor, int], torch.Tensor], ...] = (
    lambda y, dim: y - y.mean(dim, keepdim=True),
    lambda y, dim: y.softmax(dim),
    lambda y, dim: F.layer_norm(y, y.shape[-1:]),
    lambda y, dim: y * (y.float().pow(2).mean(dim, keepdim=True) + 1e-3).rsqrt().to(y.dtype),
    lambda y, dim: y.cumsum(dim),
    lambda y, dim: F.pad(y.narrow(dim, 0, y.shape[dim] // 2 + 1), [0, 0] * (2 - dim) + [1, 2]),
    lambda y, dim: y.narrow(dim, 1, max(y.shape[dim] - 2, 1)),
    lambda y, dim: F.avg_pool1d(F.pad(y, [1, 1]), 3, 1),
    lambda y, dim: y.flip(dim),
    lambda y, dim: y.roll(1, dim),
    lambda y, dim: torch.where(y > 0, y, y.amax(dim, keepdim=True)),
    lambda y, dim: torch.stack((y.mean(dim), y.exp().mean(dim)), dim),
    lambda y, dim: torch.cat((y.narrow(dim, 0, 1), y), dim),
    lambda y, dim: y.transpose(1, 2).contiguous().transpose(1, 2) * 2 + y.std(dim, keepdim=True, correction=0),
    lambda y, dim: y + (y > y.mean(dim, keepdim=True)).sum(dim, keepdim=True).to(y.dtype),
    lambda y, dim: torch.where(y.argmax(dim, keepdim=True) % 2 == 0, y, F.gelu(y)),
)
"""Each takes a tensor of three dimensions, of which it goes along one, and gives such a one."""


def drawn(seed: int) -> tuple[Callable[..., Any], tuple[torch.Tensor, ...]]:
    """A program of several kernels over some of the same rows, and its operands."""
    dice, numbers = Random(seed), torch.Generator().manual_seed(seed)
    large = ((24, 33, 48), (9, 31, 40), (17, 40, 64))
    shape = [dice.choice(each if seed % 3 == 0 else (1, 2, 3, 5, 8, 16, 17, 24, 33)) for each in large]
    dtype = dice.choice((torch.float32,) * 4 + (torch.float16, torch.bfloat16))
    steps = [(dice.choice(STEPS), dice.randrange(3)) for _ in range(dice.randint(3, 6))]
    kept = dice.randrange(len(steps) - 1)

    def run(x: torch.Tensor, w: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        made = [torch.where(at.unsqueeze(-1) > 1, x * w[at], x)]
        for step, dim in steps:
            made.append(step(made[-1], dim))
        return made[kept], made[-1]

    x, w = (torch.randn(size, generator=numbers).to(dtype) for size in (shape, (5, shape[2])))
    return run, (x, w, torch.randint(0, 5, shape[:2], generator=numbers))


@pytest.mark.slow
def test_drawn_programs_compute_what_pytorch_does(golden: Golden, compiler: Compiler) -> None:
    made = {seed: drawn(seed) for seed in range(10)}
    problems = {seed: trace(function, *given, device=Device(threads=1 + seed % 3, simd_floats=8))
                for seed, (function, given) in made.items()}  # fmt: skip
    assert sum(bool(compiled(each).groups) for each in problems.values()) > 5
    assert not [found for each in problems.values() for found in in_memory(each)]
    recipe = LoopsRecipe()
    sources = [recipe.render(each, recipe.first_plan(each)) for each in problems.values()]
    if golden.holds(sources, *compiler.flags):
        return
    threads = ctypes.CDLL("libgomp.so.1")
    for (seed, problem), kernel in zip(problems.items(), compiler.build_all(sources), strict=True):
        function, given = made[seed]
        exact = function(*(each.double() if each.is_floating_point() else each for each in given))
        least = 1e-5 if given[0].dtype is torch.float32 else 0.02
        for count in (1, 2, 3, 8):
            threads.omp_set_num_threads(count)
            for got, reference, oracle in zip(call(kernel, problem, given), function(*given), exact, strict=True):
                allowed = max(4 * scaled_error(reference, oracle), least)
                assert torch.equal(got.isnan(), reference.isnan()) and scaled_error(got, oracle) <= allowed, seed
    threads.omp_set_num_threads(threads.omp_get_num_procs())
