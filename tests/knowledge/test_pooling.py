"""Pools in the kernels of what they pool: which join, and that they compute what torch does where no GPU is."""

from __future__ import annotations

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
from knowledge.compiler.schedule.loops.recipe import LoopsRecipe


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def layer(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(torch.relu(F.conv2d(x, w, b)), 2)


def padded(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(F.conv2d(x, w, padding=1), (2, 3), stride=(3, 3)) * 2


def smallest(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.conv1d(x, w).unflatten(2, (7, 3)).amin(2)


def overlapping(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(F.conv2d(x, w), 3, stride=2)


def outside(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(F.conv2d(x, w), 2, padding=1)


def twice(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = F.conv2d(x, w)
    return F.max_pool2d(y, 2) + y[:, :, :5, :6]


def returned(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = F.conv2d(x, w)
    return y, F.max_pool2d(y, 2)


def transposed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(F.conv_transpose2d(x, w, stride=2), 2)


IMAGES = (randn(3, 2, 12, 15), randn(5, 2, 3, 3))
CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], int]] = {
    "a layer of one channel": (layer, (randn(4, 1, 13, 12), randn(6, 1, 3, 3), randn(6)), 1),
    "padded, windows apart": (padded, IMAGES, 1),
    "places far apart": (smallest, (randn(2, 3, 23), randn(4, 3, 3)), 1),
    "long sums": (layer, (randn(2, 9, 8, 8), randn(4, 9, 3, 3), randn(4)), 2),
    "taps that differ from place to place": (transposed, (randn(2, 2, 6, 7), randn(2, 3, 3, 3)), 2),
    "windows overlap": (overlapping, IMAGES, 2),
    "windows over the edge": (outside, IMAGES, 2),
    "read twice": (twice, IMAGES, 2),
    "returned": (returned, IMAGES, 2),
}


def posed(name: str) -> Problem:
    function, inputs, _ = CASES[name]
    return traced(function, *inputs, device=H200)


def rendered(name: str) -> str:
    return LoopsRecipe().render(posed(name), Plan("loops"))


@pytest.mark.parametrize("name", CASES)
def test_a_pool_joins_short_sums_whose_windows_are_apart(name: str) -> None:
    nests = rendered(name).partition("begin includes")[0].count(" stored")
    assert nests == CASES[name][2]
    on_a_processor = traced(*CASES[name][:1], *CASES[name][1]).model_copy(update={"target": "cpu"})
    assert LoopsRecipe().render(on_a_processor, Plan("loops")).partition("#include")[0].count(" stored") == 2


def test_pooled_sums_are_what_torch_has(golden: Golden, compiler: Compiler) -> None:
    joined = [name for name, (_, _, nests) in CASES.items() if nests == 1]
    sources = [emulated(rendered(name)) for name in joined]
    if golden.holds(sources, *compiler.flags):
        return
    for name, source in zip(joined, sources, strict=True):
        function, inputs, _ = CASES[name]
        given = tuple(each.clone() for each in inputs)
        given[0].view(-1)[3] = torch.nan
        exact = function(*(each.double() for each in given))
        (got,) = call(compiler.build(source), posed(name), given)
        assert_close(got, function(*given), exact, name)


def test_nvcc_takes_them(golden: Golden, tmp_path: Any) -> None:
    sources = [rendered(name) for name in CASES]
    if not golden.holds(for_nvcc(sources, "sm_90a")):
        assert not compiled(tmp_path, sources, "sm_90a")
