"""Unusual forwards, compiled: bytes and bools shared by threads, constants, negative infinities, returned arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from goldens import Golden
from traced import Compiler, call, trace

from knowledge.compiler.plan import Draft, Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.rows.recipe import RowRecipe
from knowledge.compiler.search.first import first_draft

generator = torch.Generator().manual_seed(17)
X, V = torch.randn(4, 6, generator=generator), torch.randn(6, generator=generator)
HUGE = torch.randn(8, 96, generator=generator) * 1e37
BYTES = torch.randint(0, 256, (3, 500), generator=generator)
Forward = Callable[..., Any]


def extrema(t: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Of whole numbers and truths."""
    return t.amax(1), t.amin(1), t.any(1), t.all(1)


def whole(t: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What wraps around in C++ must wrap as it does in torch."""
    return t * 2 + 100, t * t, -t, (-t) > 3, t // 3


def divided(t: torch.Tensor) -> torch.Tensor:
    """Rows of 997 fill no whole register: the lanes beyond them hold 0."""
    return torch.cat((t, t * 2), 1)[:, 3:] % t.roll(1, 1).repeat(1, 2)[:, 3:]


def infinite(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Constants below zero, with another minus in front."""
    low = torch.full_like(x, float("-inf"))
    return -low + x, x - low, -torch.full_like(x, -0.0) + x, torch.where(x > 0, -low, torch.full_like(x, -2.5))


def several(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Two parts, and the argument as it came."""
    return F.softmax(x, -1).mean(0), x, x.t()


PARTS: dict[str, tuple[Forward, tuple[torch.Tensor, ...]]] = {
    "bytes alike": (lambda t: (t.all(), t.any()), (torch.tensor([[1, 2], [4, 8]], dtype=torch.uint8),)),
    "spread": (lambda x, v: ((torch.zeros(6, 6) + v).t(), (torch.ones(4, 6) * v).flip(0) - x), (X, V)),
    "summed": (lambda v: (torch.ones(4, 6) * v).sum(0), (V,)),
    "infinite": (infinite, (X,)),
    "several": (several, (X,)),
    "wrapped bytes": (whole, (BYTES.byte(),)),
    "wrapped signed bytes": (whole, (BYTES.char(),)),
    "bits": (lambda t: (~t, t & 5, t % 3, t | 8), (BYTES.short() - 100,)),
    "divided past a register's end": (divided, (BYTES.int() + 1,)),
    "truths": (lambda t: (~t, t & (t ^ t), t.float() * 2, t.long() + t), (BYTES % 3 > 0,)),
    "huge, scaled": (lambda x: (F.softmax(x * 0.3, -1), F.log_softmax(x / 3, -1).exp()), (HUGE,)),
    "in place": (lambda x, v: F.softmax((x * 2).add_(v).relu_(), 0).mul_(3).sum(0), (X, V)),
}
SHARED = {"uint8": BYTES.byte(), "int8": BYTES.char(), "int16": BYTES.short() * 100, "bool": BYTES > 0}


@pytest.fixture(scope="module")
def written() -> dict[str, tuple[Problem, str]]:
    """All of them."""
    problems = {name: trace(function, *given) for name, (function, given) in PARTS.items()}
    sources = {}
    for name, problem in problems.items():
        draft = first_draft(problem)
        assert isinstance(draft, Draft), draft
        sources[name] = draft.source
    for name, given in SHARED.items():
        problems[name] = trace(extrema, given)
        sources[name] = RowRecipe().render(problems[name], Plan("rows", {"threads": "columns"}))
    return {name: (problems[name], source) for name, source in sources.items()}


@pytest.mark.parametrize("name", [*PARTS, *SHARED])
def test_odd_forwards_are_right(
    golden: Golden, compiler: Compiler, written: dict[str, tuple[Problem, str]], name: str
) -> None:
    function, given = PARTS.get(name) or (extrema, (SHARED[name],))
    problem, source = written[name]
    if golden.holds([source], *compiler.flags):
        return
    compiler.build_all([each for _, each in written.values()])
    kernel = compiler.build(source)
    wanted = function(*given)
    for got, expected in zip(
        call(kernel, problem, given), wanted if isinstance(wanted, tuple) else (wanted,), strict=True
    ):
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)
