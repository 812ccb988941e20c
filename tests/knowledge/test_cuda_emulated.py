"""Pointwise and row kernels for GPUs compute what torch does, where no GPU is: their threads as the processor's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from emulated import emulated
from gpu_kernels import A100, traced
from test_cuda_pointwise import divisions, exponentials, views
from test_cuda_rows import places, shifted, softmax, sums
from traced import Compiler, assert_close, call

from knowledge.playbook.author import recipes
from knowledge.playbook.recipe import Plan

torch.manual_seed(7)
X = torch.randn(3, 1003)
ODD = torch.randn(5, 1003)
INFINITE = torch.randn(6, 403)
INFINITE[0] = -torch.inf
INFINITE[1, ::2] = -torch.inf
INFINITE[2, -1], INFINITE[3, 0], INFINITE[4, 7] = torch.inf, torch.nan, -torch.inf
ONLINE = {"online": 1, "vector": 1, "items": 2, "group": 64}
RISING = torch.linspace(-300, 300, 3 * 20_000).view(3, 20_000)


def patterns(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Windows, repeats, and dimensions backwards."""
    return F.max_pool2d(x[None], 2) + 1, x.flip(0, 1), x.repeat(2, 3) * 2, x.t().reshape(-1), F.avg_pool1d(x, 3, 1)


CASES = {
    "views": (views, [torch.randn(2, 3, 76), torch.randn(76), torch.tensor(1.5)], {"vector": 1, "packs": 2}),
    "a tail": (lambda x: x * torch.sigmoid(x), [torch.randn(4099)],
               {"vector": 1, "packs": 4, "grid": 2, "threads": 32}),
    "patterns": (patterns, [torch.randn(6, 44)], {"vector": 1, "packs": 2}),
    "groups": (lambda x, w: F.relu(F.group_norm(x, 3, w, w)), [torch.randn(4, 6, 50), torch.randn(6)],
               {"vector": 1, "items": 2, "group": 64}),
    "divisions": (divisions, [X * 20], {"vector": 1, "exact": 1, "once": 1}),
    "exponentials": (exponentials, [X * 60], {"exact": 1}),
    "sums": (sums, [ODD], {"vector": 1, "items": 2, "group": 64}),
    "kept sums": (sums, [ODD[:, :1000].contiguous()], {"vector": 1, "keep": 1, "items": 16, "group": 64}),
    "places": (places, [ODD], {"keep": 1, "items": 8, "group": 128}),
    "several rows a block": (softmax, [torch.randn(21, 24)],
                             {"vector": 1, "keep": 1, "items": 4, "group": 8, "rows": 8}),
    "norm": (lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), [ODD, torch.randn(1003), torch.randn(1003)],
             {"items": 4, "group": 64}),
    "a row for many blocks": (lambda x, y: (torch.dot(x, y), x.argmax()), [torch.randn(3001), torch.randn(3001)],
                              {"split": 5, "items": 2, "group": 64}),
    "neighbouring rows": (lambda x: (x.sum(1), x.amax(1)), [torch.randn(3, 200, 17)],
                          {"across": 1, "rows": 16, "group": 4, "items": 2}),
    "rows that share": (torch.matmul, [torch.randn(10, 1004), torch.randn(1004)],
                        {"vector": 1, "each": 4, "items": 2, "group": 64}),
    "online": (softmax, [ODD], ONLINE),
    "online, rising": (lambda x: F.log_softmax(x, -1), [RISING], ONLINE),
    "online, falling": (softmax, [RISING.flip(-1).contiguous()], ONLINE),
    "online with infinities": (shifted, [INFINITE], {**ONLINE, "vector": 0}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_emulated_kernels_are_as_right_as_torch(name: str, compiler: Compiler) -> None:
    function, given, knobs = CASES[name]
    problem = traced(function, *given, device=A100)
    recipe = next(each for each in recipes() if isinstance(each.first_plan(problem), Plan))
    source = recipe.render(problem, Plan(recipe.name, dict(knobs)))
    results = call(compiler.build(emulated(source)), problem, given)
    doubles = [each.double() for each in given]
    expected, oracle = (each if isinstance(each, tuple) else (each,) for each in (function(*given), function(*doubles)))
    for index, (got, theirs, exact) in enumerate(zip(results, expected, oracle, strict=True)):
        assert_close(got, theirs, exact, f"output {index}")
