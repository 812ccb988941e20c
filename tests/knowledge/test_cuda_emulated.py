"""Pointwise and row kernels for GPUs compute what torch does, where no GPU is: on odd shapes, and also where
blocks share a row, or copies bring the next one in the background."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from emulated import emulated
from goldens import Golden
from gpu_kernels import A100, H200, traced
from test_cuda_pointwise import divisions, exponentials, views
from test_cuda_rows import layer_norm, places, product, shifted, softmax, sums
from traced import Compiler, assert_close, call

from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.search.recipes import recipes

torch.manual_seed(7)
X = torch.randn(3, 1003)
ODD = torch.randn(5, 1003)
INFINITE = torch.randn(6, 403)
INFINITE[0] = -torch.inf
INFINITE[1, ::2] = -torch.inf
INFINITE[2, -1], INFINITE[3, 0], INFINITE[4, 7] = torch.inf, torch.nan, -torch.inf
ONLINE = {"online": 1, "vector": 1, "items": 2, "group": 64}
KEEP = {"vector": 1, "keep": 1}
# Places of equals, of nothing but infinities, and of NaN before and after numbers.
EXTREMES = torch.arange(2 * 40 * 9).view(2, 40, 9).remainder(11).float()
EXTREMES[0, :, 0], EXTREMES[0, :, 1], EXTREMES[1, 7:9, 2], EXTREMES[1, 0, 3] = (
    -torch.inf,
    torch.inf,
    torch.nan,
    torch.nan,
)
CLUSTERED = {"cluster", "staged"}
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
    "places in neighbouring rows": (lambda x: (x.argmax(1), x.argmin(1)), [EXTREMES],
                                    {"across": 1, "rows": 16, "group": 4, "items": 2}),
    "places in packs": (lambda x: (x.argmax(-1), x.argmin(-1)), [EXTREMES.mT.contiguous()],
                        {"vector": 1, "items": 2, "group": 2}),
    "rows that share": (torch.matmul, [torch.randn(10, 1004), torch.randn(1004)],
                        {"vector": 1, "each": 4, "items": 2, "group": 64}),
    "online": (softmax, [ODD], ONLINE),
    "online, rising": (lambda x: F.log_softmax(x, -1), [RISING], ONLINE),
    "online, falling": (softmax, [RISING.flip(-1).contiguous()], ONLINE),
    "online with infinities": (shifted, [INFINITE], {**ONLINE, "vector": 0}),
    "a cluster": (softmax, [torch.randn(3, 1003)], {**KEEP, "items": 8, "group": 64, "cluster": 2}),
    "the next row ahead": (softmax, [torch.randn(7, 2000)],
                           {**KEEP, "items": 16, "group": 32, "cluster": 4, "staged": 1, "chain": 3, "once": 1}),
    "the next row in parts": (layer_norm, [torch.randn(5, 1000), torch.randn(1000), torch.randn(1000)],
                              {**KEEP, "items": 16, "group": 64, "staged": 1, "chain": 4, "parts": 4}),
    "blocks without a share": (softmax, [torch.randn(5, 516)],
                               {**KEEP, "items": 8, "group": 32, "cluster": 8, "staged": 1, "chain": 2, "parts": 2}),
    "a cluster of 16": (softmax, [torch.randn(5, 1932)],
                        {**KEEP, "items": 8, "group": 16, "cluster": 16, "staged": 1, "chain": 2, "parts": 2,
                         "blocks": 2, "exact": 1}),
    "two sums a row, ahead in a cluster": (
        lambda x: F.instance_norm(x, eps=1e-3), [torch.randn(1, 7, 32, 64) + 3],
        {**KEEP, "items": 8, "group": 32, "cluster": 8, "staged": 1, "chain": 3, "parts": 2}),
    "two operands ahead": (lambda x, y: F.softmax(x.float() * y, -1), [torch.randn(5, 768).half(), torch.randn(5, 768)],
                           {**KEEP, "items": 16, "group": 32, "cluster": 2, "staged": 1, "chain": 2, "parts": 2}),
    "one element": (lambda x, y: x * y + 1, [torch.randn(1, 1), torch.randn(1)], {"vector": 1, "packs": 2}),
    "16 bits": (lambda x, y: (x * 2 + y, y.float() - x[:, ::2].repeat(1, 2)),
                [torch.randn(3, 24).half(), torch.randn(24).half()],
                {"vector": 1, "packs": 2, "once": 1}),
    "a tail of 16 bits": (lambda x: x.abs(), [torch.randn(7, 43).bfloat16()], {"vector": 1, "threads": 32}),
    "mixed types": (lambda x, n: (x + n, n % 5, (n > 2) & (x > 0), x.double() * n),
                    [torch.randn(5, 36), torch.arange(180).view(5, 36)], {"vector": 1, "grid": 1}),
    "one column": (softmax, [torch.randn(5, 1)], {**KEEP, "items": 1, "group": 1, "rows": 256}),
    "one long row across": (lambda x: (x.sum(0), x.amax(0)), [torch.randn(301, 3)],
                            {"across": 1, "rows": 32, "group": 4, "items": 4}),
    "columns in two dimensions": (lambda x: (x.sum((0, 2)), x.amax((0, 2))), [torch.randn(3, 5, 44)],
                                  {"vector": 1, "items": 2, "group": 32}),
    "half norm": (layer_norm, [torch.randn(7, 77).half(), torch.randn(77).half(), torch.randn(77).half()],
                  {**KEEP, "items": 4, "group": 32, "rows": 2}),
    "doubles": (softmax, [torch.randn(6, 131, dtype=torch.float64)], {**KEEP, "items": 6, "group": 32, "rows": 4}),
    "whole numbers": (lambda n: (n.sum(-1), n.amax(-1), n.argmin(-1), (n > 90).any(-1)),
                      [torch.arange(7 * 130).view(7, 130).remainder(97)], {"vector": 1, "items": 2, "group": 32}),
    "rows that share, a block of them left": (product, [torch.randn(7, 520), torch.randn(520, 1)],
                                              {"vector": 1, "each": 4, "items": 2, "group": 32, "cluster": 2}),
    "vector and matrix": (product, [torch.randn(131), torch.randn(131, 37)],
                          {"across": 1, "rows": 16, "group": 4, "items": 2}),
    "a long row across, flushed": (lambda x: (x.sum(0), x.var(0)), [torch.randn(1000, 5)],
                                   {"across": 1, "rows": 8, "group": 4, "items": 2}),
    "streamed by a cluster": (sums, [torch.randn(3, 1100)], {"vector": 1, "items": 2, "group": 32, "cluster": 4}),
}  # fmt: skip


@pytest.fixture(scope="module")
def sources() -> dict[str, tuple[Problem, str]]:
    """All cases."""
    found = {}
    for name, (function, given, knobs) in CASES.items():
        problem = traced(function, *given, device=H200 if knobs.keys() & CLUSTERED else A100)
        recipe = next(each for each in recipes() if isinstance(each.first_plan(problem), Plan))
        found[name] = (problem, emulated(recipe.render(problem, Plan(recipe.name, dict(knobs)))))
    return found


@pytest.mark.parametrize("name", CASES)
def test_emulated_kernels_are_as_right_as_torch(
    name: str, golden: Golden, compiler: Compiler, sources: dict[str, tuple[Problem, str]]
) -> None:
    function, given, _ = CASES[name]
    problem, source = sources[name]
    if golden.holds([source], *compiler.flags):
        return
    compiler.build_all([each for _, each in sources.values()])
    results = call(compiler.build(source), problem, given)
    doubles = [each.double() if each.is_floating_point() else each for each in given]
    expected, oracle = (each if isinstance(each, tuple) else (each,) for each in (function(*given), function(*doubles)))
    for index, (got, theirs, exact) in enumerate(zip(results, expected, oracle, strict=True)):
        assert_close(got, theirs, exact, f"output {index}")
