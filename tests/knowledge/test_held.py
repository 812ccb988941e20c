"""Rows that a GPU's threads hold: what is taken together, and that it computes what torch does where no GPU is."""

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
from knowledge.compiler.schedule.loops import held_shape
from knowledge.compiler.schedule.loops.recipe import LoopsRecipe

Function = Callable[..., Any]


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def odd(*shape: int) -> torch.Tensor:
    """With a NaN, both infinities, and a row of each."""
    x = randn(*shape)
    x[0, 1, 2], x[1, 0, 3], x[1, 2, 5] = torch.nan, torch.inf, -torch.inf
    x[0, :, 7] = -torch.inf
    return x


def softmax(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(2 * (x.softmax(1) + bias[:, None]))


def channel_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.gelu(F.layer_norm(x.transpose(1, 2), weight.shape, weight).transpose(1, 2))


def activated(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """What sums are taken of is made on the way, and returned, too."""
    y = (F.hardswish(torch.tanh(x)) + x) * weight[:, None]
    return y.logsumexp(1)


def masked(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x.masked_fill(mask > 0, -torch.inf).softmax(1)


def moments(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two results of a row, and none of its elements."""
    mean = x.mean(1, keepdim=True)
    return mean, (x - mean).square().mean(1)


def instances(x: torch.Tensor) -> torch.Tensor:
    return F.instance_norm(x) / 2 + x


def groups(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.silu(F.group_norm(x, 2, weight, weight))


CASES: dict[str, tuple[Function, tuple[torch.Tensor, ...], int]] = {
    "softmax of 128 channels": (softmax, (randn(2, 128, 100), randn(128)), 1),
    "softmax of 5 channels": (softmax, (randn(3, 5, 1001), randn(5)), 1),
    "softmax of 37 channels": (softmax, (odd(2, 37, 130), randn(37)), 1),
    "softmax of 130 channels": (softmax, (odd(2, 130, 67), randn(130)), 1),
    "log softmax": (lambda x: x.log_softmax(1), (odd(2, 12, 500),), 1),
    "norm of 37 channels": (channel_norm, (randn(2, 37, 202), randn(37)), 1),
    "norm of 130 channels": (channel_norm, (odd(2, 130, 64), randn(130)), 1),
    "logsumexp behind an activation": (activated, (odd(2, 64, 101), randn(64)), 1),
    "masked": (masked, (randn(2, 30, 200), randn(2, 30, 200)), 1),
    "16 bits": (softmax, (randn(2, 64, 136).bfloat16(), randn(64).bfloat16()), 1),
    "moments": (moments, (randn(2, 40, 130),), 1),
    "instances": (instances, (odd(3, 5, 900).reshape(3, 5, 30, 30),), 1),
    "long instances": (instances, (randn(1, 2, 9000),), 1),
    "odd instances": (instances, (randn(3, 5, 33, 33),), 1),
    "groups": (groups, (randn(2, 6, 25, 36), randn(6)), 1),
    "rows of 64": (lambda x: F.gelu(F.layer_norm(x, (64,))), (randn(3, 67, 64),), 1),
    "one channel": (softmax, (randn(2, 1, 9000), randn(1)), 1),
}


def posed(name: str) -> Problem:
    function, inputs, _ = CASES[name]
    return traced(function, *inputs, device=H200)


def rendered(name: str) -> str:
    return LoopsRecipe().render(posed(name), Plan("loops"))


@pytest.mark.parametrize("name", CASES)
def test_rows_are_read_once(name: str) -> None:
    assert rendered(name).count("__global__") == CASES[name][2]


def test_what_was_to_lie_in_memory_is_rounded_before_others_compare_with_it() -> None:
    """`a * b - max(a * b)` as one multiply-add would not be 0 where the maximum is."""
    assert "__fmul_rn(" in rendered("logsumexp behind an activation")


def test_rows_compute_what_torch_does(golden: Golden, compiler: Compiler) -> None:
    sources = [emulated(rendered(name)) for name in CASES]
    if golden.holds(sources, *compiler.flags):
        return
    for name, kernel in zip(CASES, compiler.build_all(sources), strict=True):
        function, inputs, _ = CASES[name]
        exact = function(*(each.double() for each in inputs))
        made, exact = (each if isinstance(each, tuple) else (each,) for each in (function(*inputs), exact))
        for got, theirs, oracle in zip(call(kernel, posed(name), inputs), made, exact, strict=True):
            assert_close(got, theirs, oracle, name)


def test_long_rows_lie_in_clusters_of_blocks(
    golden: Golden, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with rows of 32 thousand elements and more, were a thread to hold 64: here it holds 8."""
    monkeypatch.setattr(held_shape, "MOST", 8)
    monkeypatch.setattr(held_shape, "WANTED", 8)
    cases = {
        "packs": (lambda x: x.clamp(0, 1).softmax(-1) * 3, randn(3, 9004)),
        "one at a time": (instances, odd(2, 3, 9001)),
    }
    problems = {name: traced(function, x, device=H200) for name, (function, x) in cases.items()}
    sources = {name: LoopsRecipe().render(problem, Plan("loops")) for name, problem in problems.items()}
    assert all("__cluster_dims__(4, 1, 1)" in source for source in sources.values())
    texts = list(map(emulated, sources.values()))
    if golden.holds(texts, *compiler.flags):
        return
    for (name, (function, x)), kernel in zip(cases.items(), compiler.build_all(texts), strict=True):
        (got,) = call(kernel, problems[name], (x,))
        assert_close(got, function(x), function(x.double()), name)


def test_nvcc_takes_them(golden: Golden, tmp_path: Any) -> None:
    sources = [rendered(name) for name in CASES]
    if not golden.holds(for_nvcc(sources, "sm_90a")):
        assert not compiled(tmp_path, sources, "sm_90a")
