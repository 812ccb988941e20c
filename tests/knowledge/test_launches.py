"""Kernels that one launch serves: which they are, and that they compute what torch does where no GPU is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from emulated import emulated
from goldens import Golden
from gpu_kernels import H200, compiled, for_nvcc, traced
from torch.nn import functional as F
from traced import Compiler, assert_close, call

from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.loops.launches import MOST
from knowledge.compiler.schedule.loops.recipe import LoopsRecipe

Function = Callable[..., Any]


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def labels(rows: int, classes: int) -> torch.Tensor:
    return torch.randint(classes, (rows,), generator=torch.Generator().manual_seed(rows))


def padded(x: torch.Tensor) -> torch.Tensor:
    """Rows that may miss what they read: no thread holds those."""
    return F.pad(x, (1, 1))


def variance_in_loops(x: torch.Tensor) -> torch.Tensor:
    """Each row's mean, then the mean of what is left: both of all threads of a block."""
    x = padded(x)
    return (x - x.mean(1, keepdim=True)).square().mean(1)


def columns_of(x: torch.Tensor) -> torch.Tensor:
    x = padded(x)
    return (x - x.amax(1, keepdim=True)).exp().sum(1)


def turned(x: torch.Tensor) -> torch.Tensor:
    """A row's maximum, then of what the maxima of other rows leave."""
    return (x - x.amax(1).flip(0)[:, None]).exp().sum(1)


def tail_of_all(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([(x[: 3 + k] - x[k:].mean()).square().sum() for k in range(MOST)])


CASES: dict[str, tuple[Function, tuple[torch.Tensor, ...], int]] = {
    "few rows, one block for all": (F.cross_entropy, (randn(64, 10), labels(64, 10)), 1),
    "more rows than threads": (F.cross_entropy, (randn(301, 10), labels(301, 10)), 1),
    "a warp a row": (F.cross_entropy, (randn(1203, 40), labels(1203, 40)), 2),
    "a block a row": (variance_in_loops, (randn(37, 1100),), 1),
    "a thread a column": (columns_of, (randn(3, 50, 700),), 1),
    "other rows' maxima": (turned, (randn(1203, 40),), 2),
    "more kernels than one launch has": (tail_of_all, (randn(20),), 2),
}


def posed(name: str) -> Problem:
    function, inputs, _ = CASES[name]
    return traced(function, *inputs, device=H200)


def rendered(name: str) -> str:
    return LoopsRecipe().render(posed(name), Plan("loops"))


@pytest.mark.parametrize("name", CASES)
def test_kernels_share_launches(name: str) -> None:
    assert rendered(name).count("launched();") == CASES[name][2]


def test_kernels_of_one_launch_compute_what_torch_does(golden: Golden, compiler: Compiler) -> None:
    sources = [emulated(rendered(name)) for name in CASES]
    if golden.holds(sources, *compiler.flags):
        return
    for name, source in zip(CASES, sources, strict=True):
        function, inputs, _ = CASES[name]
        exact = function(*(each.double() if each.is_floating_point() else each for each in inputs))
        (got,) = call(compiler.build(source), posed(name), inputs)
        assert_close(got, function(*inputs), exact, name)


def test_nvcc_takes_them(golden: Golden, tmp_path: Any) -> None:
    sources = [rendered(name) for name in CASES]
    if not golden.holds(for_nvcc(sources, "sm_90a")):
        assert not compiled(tmp_path, sources, "sm_90a")


def test_what_two_kernels_keep_in_the_same_memory_keeps_their_launches_apart() -> None:
    """Threads of the second would write where others of the first still read."""

    def chained(x: torch.Tensor) -> torch.Tensor:
        x = padded(x)
        found = x.amax(1)
        for _ in range(2):
            found = (x * (x - found[:, None]).exp().sum(1)[:, None]).amax(1)
        return found

    source = LoopsRecipe().render(traced(chained, randn(2048, 64)), Plan("loops"))
    places = re.findall(r"pBetween\d+ = .*start\(\) \+ (\d+)\)", source)
    assert len(set(places)) < len(places)
    assert "//   loops2: 2048, amax over 66; 1 stored\n//   loops3: 2048, sum over 66" in source


def test_models_layers_that_are_alike_share_what_was_joined() -> None:
    def twice(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = (x - x.amax(1, keepdim=True)) / (x - x.amax(1, keepdim=True)).exp().sum(1, keepdim=True)
        return x

    source = LoopsRecipe().render(traced(twice, randn(4099, 64)), Plan("loops"))
    kernels = source.count("__global__")
    assert kernels < source.count("<<<"), "called again"
    assert "again" in source and "then:" in source
