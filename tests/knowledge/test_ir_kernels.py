"""Loop nests as the general schedules write them, compiled and run: registers, guards, blocks, scans."""

from __future__ import annotations

import pytest
import torch
from emulated import emulated
from goldens import Golden
from gpu_kernels import H200
from ir_cases import CASES
from test_ir_meaning import oracle_of, outputs_of
from traced import Compiler, assert_close, call, trace

from knowledge.compiler.plan import Decline, Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.loops import cpu, cuda
from knowledge.compiler.schedule.loops.recipe import LoopsRecipe, compiled

SHOWN = ("by cubes without steps", "conv2d", "linear", "transposed 2d", "cross entropy", "cumsum reversed",
         "attention far apart", "gather", "sort", "topk of many", "kth value", "median of numbers",
         "einsum of state spaces", "layers alike", "spatial transformer", "searchsorted", "cdist")  # fmt: skip


def posed(name: str, target: str) -> Problem:
    """A case's problem."""
    case = CASES[name]
    machine = {"device": H200} if target == "cuda" else {}
    return trace(case.function, *case.inputs, **machine).model_copy(update={"target": target})  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_kernels_compute_what_torch_does(golden: Golden, compiler: Compiler, target: str) -> None:
    recipe = LoopsRecipe()
    sources = [recipe.render(posed(name, target), Plan("loops")) for name in SHOWN]
    if target == "cuda":
        sources = [emulated(source) for source in sources[-12:]]
    if golden.holds(sources, *compiler.flags):
        return
    kernels = [compiler.build(source) for source in sources] if target == "cuda" else compiler.build_all(sources)
    for name, kernel in zip(SHOWN[-len(kernels) :], kernels, strict=True):
        case = CASES[name]
        got = call(kernel, posed(name, target), case.inputs)
        for mine, theirs, oracle in zip(got, outputs_of(case.function(*case.inputs)), oracle_of(case), strict=True):
            assert_close(mine, theirs, oracle, name)


@pytest.mark.parametrize(("target", "kind"), [("cpu", "void "), ("cuda", "__global__ ")])
def test_layers_that_are_alike_share_a_function(target: str, kind: str) -> None:
    source = LoopsRecipe().render(posed("layers alike", target), Plan("loops"))
    assert sum(line.startswith(kind) and "loops" in line for line in source.splitlines()) == 1
    assert "loops1" not in source and "//   loops0 again" in source


def test_what_follows_a_reduction_element_by_element_joins_its_kernel() -> None:
    (nest,) = compiled(posed("conv2d", "cpu")).nests
    assert len(nest.totals) == len(nest.stores) == 1
    assert [axis.extent for axis in nest.reduced] == [3, 3, 3]


def test_what_a_maximum_is_taken_of_is_computed_once() -> None:
    nests = compiled(posed("attention far apart", "cuda")).nests
    (maximum,) = (nest for nest in nests if any(total.op == "amax" for total in nest.totals))
    assert [total.body.kind for total in maximum.totals] == ["read"]
    assert next(nest.stores[0].body.op for nest in nests if nest.reduced and nest is not maximum) == "mul"


def test_reductions_over_the_same_that_read_the_same_are_one_kernel() -> None:
    triplet = compiled(posed("triplet", "cpu"))
    assert len(triplet.nests[0].totals) == 2


@pytest.mark.parametrize(("long", "kept"), [(9001, 9001), (12289, 70)])
def test_rows_that_no_block_holds_are_sorted_in_runs(golden: Golden, compiler: Compiler, long: int, kept: int) -> None:
    def sorts(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = torch.sort(-x, dim=1, stable=True, descending=True)
        return found[0][:, :kept], found[1][:, :kept]

    def first(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple((-x).topk(kept, 1))  # type: ignore[return-value]

    x = torch.empty(2, long, 3)
    problem = trace(sorts if kept == long else first, x, device=H200).model_copy(update={"target": "cuda"})
    source = emulated(LoopsRecipe().render(problem, Plan("loops")))
    if golden.holds([source], *compiler.flags):
        return
    kernel = compiler.build(source)
    for values in (5, 3000, 1 << 24):
        drawn = torch.randint(values, x.shape, generator=torch.Generator().manual_seed(values)).float()
        drawn[0, 4090 :: long // 5, 1] = torch.nan
        drawn[1, 7, 2], drawn[1, -1, 0] = torch.inf, -torch.inf
        for mine, theirs in zip(call(kernel, problem, (drawn,)), sorts(drawn), strict=True):
            assert torch.equal(mine.nan_to_num(-1.5), theirs.nan_to_num(-1.5)), values


def test_rows_whose_places_need_more_than_32_bits_are_declined_by_their_length() -> None:
    x = torch.empty(1 << 31, device="meta")
    problem = trace(lambda x: x.sort(), x, device=H200).model_copy(update={"target": "cuda"})
    assert LoopsRecipe().first_plan(problem) == Decline("a sort of rows of 2147483648 elements")


@pytest.mark.parametrize("columns", [1 << 20, 1 << 30])
def test_indices_of_a_gpu_s_loops_have_64_bits_where_elements_are_more_than_32_bits_count(columns: int) -> None:
    x = torch.empty(3, columns, device="meta")
    for function in (lambda x: x.flip(1), lambda x: x.amax(0), lambda x: torch.cat((x, x), 1)):
        problem = trace(function, x, device=H200).model_copy(update={"target": "cuda"})
        source = LoopsRecipe().render(problem, Plan("loops"))
        assert ("using Index = int64_t;" in source) == (3 * columns > 1 << 31)


def test_an_expanded_input_is_read_where_it_lies() -> None:
    x = torch.randn(5, 1).expand(5, 7)
    problem = trace(lambda x: x.cumsum(1), x)
    source = LoopsRecipe().render(problem, Plan("loops"))
    assert 'require(a, "a", {5, 7}, {1, 0}, kDLFloat, 32);' in source and "mA(i0)" in source


def test_pairs_beside_one_another_are_written_along_memory_not_across_heads() -> None:
    def rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)

    found = trace(rotary, torch.randn(24, 10, 32), torch.randn(10, 16), torch.randn(10, 16))
    (nest,) = compiled(found).nests
    along = cpu.lane(nest, 8)
    assert along is not None and along.extent == 32


def test_a_norm_follows_its_convolution_in_one_kernel() -> None:
    """And neighbouring threads take neighbours of the image, though all that the norm reads lies along the channels."""
    norm = torch.nn.Sequential(torch.nn.Conv2d(3, 40, 1, groups=1), torch.nn.BatchNorm2d(40), torch.nn.ReLU6()).eval()
    problem = trace(norm, torch.empty(2, 3, 9, 7), device=H200).model_copy(update={"target": "cuda"})
    made = compiled(problem)
    assert [len(nest.totals) for nest in made.nests] == [0, 1] and len(made.nests[1].stores) == 1
    grouped = torch.nn.Sequential(torch.nn.Conv2d(40, 40, 3, groups=40, stride=2), *norm[1:]).eval()
    problem = trace(grouped, torch.empty(2, 40, 33, 33), device=H200).model_copy(update={"target": "cuda"})
    nest, who = cuda.chosen(compiled(problem).nests[1], compiled(problem).graph)
    assert who == "thread" and nest.axes[-1].extent == 16
