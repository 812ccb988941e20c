"""Fifty-five tasks that people run: what comes of each, and that compiled kernels compute what PyTorch does."""

from __future__ import annotations

import pytest
import torch
from emulated import emulated
from everyday import TASKS as THIRTY
from fifteen import FIFTEEN
from goldens import Golden
from gpu_kernels import H200
from ten import TEN
from test_ir_meaning import assert_means_the_same, oracle_of, outputs_of
from traced import Compiler, Kernel, assert_close, call, trace

from knowledge.compiler.plan import Draft, Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.loops.recipe import LoopsRecipe
from knowledge.compiler.search.first import first_draft

TASKS = THIRTY | FIFTEEN | TEN
DECLINED = {"quantized vectors": "SymInt"}
"""What has no kernel today, and a word of the reason."""
EMULATED = (
    "rotary complex",
    "chunked states",
    "accepted",
    "cache assigned",
    "top p",
    "softmax over edges",
    "bags",
    "counts likelihood",
    "interactions",
    "gated delta",
)
WRITTEN = sorted(TASKS.keys() - DECLINED.keys())
PARTS = (*(sorted(THIRTY.keys() - DECLINED.keys())[part::2] for part in (0, 1)), sorted(FIFTEEN), sorted(TEN))


def posed(name: str, target: str) -> Problem:
    """A task's problem."""
    machine = {"device": H200} if target == "cuda" else {}
    case = TASKS[name]
    return trace(case.function, *case.inputs, **machine).model_copy(update={"target": target})  # type: ignore[arg-type]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", WRITTEN)
def test_a_task_is_written_and_means_what_pytorch_computes(name: str) -> None:
    traced = assert_means_the_same(name, TASKS[name])
    for target, device in (("cpu", traced.device), ("cuda", H200)):
        assert isinstance(first_draft(traced.model_copy(update={"target": target, "device": device})), Draft), target


@pytest.mark.parametrize("name", DECLINED)
def test_what_is_declined_is_declined_by_name(name: str) -> None:
    with pytest.raises(Exception, match=DECLINED[name]):
        assert_means_the_same(name, TASKS[name])


@pytest.mark.sampled(16)
@pytest.mark.parametrize("part", range(len(PARTS)))
def test_compiled_kernels_compute_what_pytorch_does(golden: Golden, compiler: Compiler, part: int) -> None:
    names = PARTS[part]
    sources = [LoopsRecipe().render(posed(name, "cpu"), Plan("loops")) for name in names]
    if golden.holds(sources, *compiler.flags):
        return
    for name, kernel in zip(names, compiler.build_all(sources), strict=True):
        agrees(name, kernel, "cpu")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", EMULATED)
def test_a_gpu_s_kernel_computes_the_same(golden: Golden, compiler: Compiler, name: str) -> None:
    source = emulated(LoopsRecipe().render(posed(name, "cuda"), Plan("loops")))
    if not golden.holds([source], *compiler.flags):
        agrees(name, compiler.build(source), "cuda")


def agrees(name: str, kernel: Kernel, target: str) -> None:
    """A compiled kernel gives PyTorch's results."""
    case = TASKS[name]
    got = call(kernel, posed(name, target), case.inputs)
    for mine, theirs, oracle in zip(got, outputs_of(case.function(*case.inputs)), oracle_of(case), strict=True):
        assert_close(mine, theirs, oracle, name)


@pytest.mark.parametrize("count", [3, 40])
def test_a_product_s_running_sum_is_summed_in_double_as_pytorch_does(count: int) -> None:
    def masked(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return (x * mask).cumsum(1)

    x = torch.empty(2, count)
    source = LoopsRecipe().render(trace(masked, x, x), Plan("loops"))
    assert "double s0w = 0.0;" in source or "vdouble s0w = all(0.0);" in source
