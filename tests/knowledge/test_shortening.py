"""Sources that would be too long: without comments and names, and one template for what differs in sizes alone."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from emulated import emulated
from goldens import Golden
from gpu_kernels import H200
from torch import Tensor
from traced import Compiler, assert_close, call, trace

from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.loops import recipe, shortening
from knowledge.compiler.schedule.loops.recipe import File, LoopsRecipe

PLAN = Plan("loops")


def pyramid(x: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """The same block three times, each time at another size."""
    for weight in (a, b, c):
        x = F.max_pool2d(F.conv2d(x, weight, padding=1).relu() * 0.5, 2)
        x = x - x.mean((2, 3), keepdim=True)
    return x


GIVEN = (torch.randn(2, 3, 40, 24), torch.randn(5, 3, 3, 3), torch.randn(7, 5, 3, 3), torch.randn(11, 7, 3, 3))


def posed(target: str) -> Problem:
    machine = {"device": H200} if target == "cuda" else {}
    return trace(pyramid, *GIVEN).model_copy(update={"target": target, **machine})


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_a_source_that_would_be_too_long_is_written_in_fewer_words(
    golden: Golden, compiler: Compiler, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    problem = posed(target)
    whole = File(problem, PLAN).text()
    assert LoopsRecipe().render(problem, PLAN) == whole
    monkeypatch.setattr(recipe, "MOST_CHARACTERS", len(whole) - 1)
    source = LoopsRecipe().render(problem, PLAN)
    assert source == File(problem, PLAN, is_short=True).text() and len(source) < len(whole)
    assert Plan.read(source) == PLAN
    assert re.search(r"template <int z0(, int z\d+)*>\n(__global__ )?void", source), "blocks share a function"
    source = emulated(source) if target == "cuda" else source
    if not golden.holds([source], *compiler.flags):
        wanted, oracle = pyramid(*GIVEN), pyramid(*(each.double() for each in GIVEN))
        (got,) = call(compiler.build(source), problem, GIVEN)
        assert_close(got, wanted, oracle, target)


def test_functions_that_differ_in_whole_numbers_alone_are_one_template() -> None:
    one = "void loops0(float* p) {\n  p[3] = p[4] * 0.5f + 1e-05;  // twice 7\n}"
    texts, called = shortening.merged({
        "loops0": one, "loops3": one.replace("loops0", "loops3").replace("4", "8"),
        "loops4": one.replace("loops0", "loops4").replace("0.5f", "0.6f"),
        "loops5": one.replace("loops0", "loops5"),
    })  # fmt: skip
    assert texts.keys() == {"loops0", "loops4"}
    assert texts["loops0"] == "template <int z0>\nvoid loops0(float* p) {\n  p[3] = p[z0] * 0.5f + 1e-05;\n}"
    assert called == {"loops0": "loops0<4>", "loops3": "loops0<8>", "loops4": "loops4", "loops5": "loops0<4>"}
    assert shortening.with_names("loops3<<<1, 2>>>(p);", called) == "loops0<8><<<1, 2>>>(p);"


@pytest.mark.parametrize("text", [
    "template <int V>\n__global__ void loops0(float* p) {\n  p[4] = V;\n}",
    "__global__ void __launch_bounds__(kThreads) __cluster_dims__(4, 1, 1) loops0(float* p) {\n  p[4] = 1;\n}",
    "void loops0(float* p) {\n  p[3000000000] = 1;\n}",
    "void helper() {\n}\n\nvoid loops0(float* p) {\n  p[4] = 1;\n}",
])  # fmt: skip
def test_what_needs_its_numbers_spelled_stays_apart(text: str) -> None:
    other = text.replace("loops0", "loops1").replace("4", "5").replace("= 1", "= 2")
    texts, called = shortening.merged({"loops0": text, "loops1": other})
    assert texts == {"loops0": text, "loops1": other}
    assert called == {"loops0": "loops0", "loops1": "loops1"}
