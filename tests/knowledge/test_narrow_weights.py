"""Products of few rows with weights of 8 and 4 bits, made 16 bits wide on the way: emulated, and declined elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from emulated import emulated
from goldens import Golden
from gpu_kernels import A100, H200, compiled, for_nvcc, traced
from traced import Compiler, assert_close, call

from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.gemm.narrow_weights import NarrowWeightsRecipe
from knowledge.compiler.search.first import first_draft

torch.manual_seed(5)
RECIPE = NarrowWeightsRecipe()
# So few multiprocessors that a block takes many tiles in turn.
FEW = H200.model_copy(update={"multiprocessors": 2})
SCALES = torch.rand(37).bfloat16() * 0.02
Inputs = list[torch.Tensor]


def int8(rows: int, inner: int) -> torch.Tensor:
    return torch.randint(-128, 128, (rows, inner), dtype=torch.int8)


def by_row(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x @ (w.to(x.dtype) * scale[:, None]).t()


def after(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.relu(F.linear(x, w.to(x.dtype)) * scale + bias)


def nibbles(x: torch.Tensor, packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    w = torch.stack((packed & 15, packed >> 4), -1).reshape(len(packed), -1)
    groups = scale.shape[1]
    return F.linear(x, ((w.to(x.dtype) - 8).view(len(w), groups, -1) * scale[:, :, None]).view(len(w), -1))


def halves(x: torch.Tensor, packed: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    """The low nibbles of all bytes first, then the high ones, with a zero a group."""
    w = torch.cat((packed & 15, packed >> 4), 1).to(x.dtype)
    groups = scale.shape[1]
    w = (w.view(len(w), groups, -1) - zero[:, :, None]) * scale[:, :, None]
    return x @ w.view(len(w), -1).mT


def words(x: torch.Tensor, packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Eight nibbles a word, as in GPTQ's files."""
    shifts = torch.arange(0, 32, 4, dtype=torch.int32)
    w = (packed[:, :, None] >> shifts) & 15
    return F.linear(x, (w.reshape(len(packed), -1).to(x.dtype) - 8) * scale[:, None])


def unsigned(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x @ ((w.to(x.dtype) - 128) * scale[:, None]).t()


def through_float32(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x @ (w.float() * scale.float()[:, None]).to(x.dtype).t()


CASES: dict[str, tuple[Callable[..., torch.Tensor], Inputs, dict[str, int]]] = {
    "by row": (by_row, [torch.randn(16, 512).bfloat16(), int8(37, 512), SCALES], {}),
    "after, one row": (after, [torch.randn(1, 80).half(), int8(37, 80), SCALES.half(), torch.randn(37).half()],
                       {"depth": 2}),
    "k's beyond a step": (by_row, [torch.randn(5, 48).bfloat16(), int8(3, 48), SCALES[:3]], {"tiles": 2}),
    "17 rows in two dimensions": (by_row, [torch.randn(17, 1, 640).bfloat16(), int8(37, 640), SCALES],
                                  {"warps": 4, "tiles": 2}),
    "nibbles": (nibbles, [torch.randn(3, 256).bfloat16(), torch.randint(0, 256, (37, 128), dtype=torch.uint8),
                          torch.rand(37, 8).bfloat16()], {}),
    "words": (words, [torch.randn(8, 256).half(), torch.randint(-(2**31), 2**31, (21, 32)).int(),
                      SCALES[:21].half()], {}),
    "many tiles a block": (nibbles, [torch.randn(2, 512).bfloat16(),
                                     torch.randint(0, 256, (163, 256), dtype=torch.uint8),
                                     torch.rand(163, 4).bfloat16()],
                           {"warps": 2, "depth": 2, "blocks": 1, "tiles": 1}),
    "x shared, an odd k": (by_row, [torch.randn(13, 1104).bfloat16(), int8(37, 1104), SCALES],
                           {"warps": 4, "depth": 2, "blocks": 1, "shared": 1}),
    "bytes without a sign": (unsigned, [torch.randn(4, 128).bfloat16(),
                                        torch.randint(0, 256, (21, 128), dtype=torch.uint8), SCALES[:21]], {}),
    "the same in float16": (unsigned, [torch.randn(4, 128).half(),
                                       torch.randint(0, 256, (21, 128), dtype=torch.uint8), SCALES[:21].half()], {}),
    "one by one": (through_float32, [torch.randn(3, 128).bfloat16(), int8(21, 128), SCALES[:21]], {}),
    "x in device memory": (by_row, [torch.randn(5, 192).bfloat16(), int8(21, 192), SCALES[:21]], {"shared": 0}),
    "64 rows": (by_row, [torch.randn(64, 128).half(), int8(20, 128), SCALES[:20].half()], {"depth": 3}),
}  # fmt: skip


@pytest.fixture(scope="module")
def sources() -> dict[str, tuple[Problem, str]]:
    """All cases' kernels."""
    found = {}
    for name, (function, given, knobs) in CASES.items():
        problem = traced(function, *given, device=FEW if "blocks" in knobs else A100)
        plan = RECIPE.first_plan(problem)
        assert isinstance(plan, Plan), name
        found[name] = (problem, RECIPE.render(problem, plan.with_knobs(**knobs)))
    return found


@pytest.mark.parametrize("name", CASES)
def test_emulated_kernels_are_as_right_as_torch(
    name: str, golden: Golden, compiler: Compiler, sources: dict[str, tuple[Problem, str]]
) -> None:
    function, given, _ = CASES[name]
    problem, source = sources[name]
    text = emulated(source)
    if golden.holds([text], *compiler.flags):
        return
    compiler.build_all([emulated(each) for _, each in sources.values()])
    (got,) = call(compiler.build(text), problem, given)
    exact = function(*(each.double() if each.is_floating_point() else each for each in given))
    assert_close(got, function(*given), exact, name)


def test_an_infinity_stays_in_its_row(golden: Golden, compiler: Compiler) -> None:
    """K ends within a step: what stands in for the rest of it must not meet an infinity of x."""
    x = torch.randn(3, 48).bfloat16()
    x[1, 47] = torch.inf
    w, scale = int8(5, 48), SCALES[:5]
    problem = traced(by_row, x, w, scale, device=A100)
    plan = RECIPE.first_plan(problem)
    assert isinstance(plan, Plan)
    text = emulated(RECIPE.render(problem, plan))
    if golden.holds([text], *compiler.flags):
        return
    (got,) = call(compiler.build(text), problem, [x, w, scale])
    assert got[[0, 2]].isfinite().all() and not got[1].isfinite().any()


def test_weights_of_eight_and_four_bits_are_made_two_at_a_time(sources: dict[str, tuple[Problem, str]]) -> None:
    alone = {name for name, (_, source) in sources.items() if "integers<T" not in source.partition("struct Weights")[2]}
    assert alone == {"one by one"}


def test_few_rows_of_x_lie_in_shared_memory() -> None:
    def shared(rows: int, inner: int) -> object:
        given = [torch.empty(rows, inner).bfloat16(), torch.empty(37, inner, dtype=torch.int8), SCALES]
        made = RECIPE.first_plan(traced(by_row, *given))
        assert isinstance(made, Plan)
        return made.knobs["shared"]

    assert [shared(1, 4096), shared(8, 4096), shared(8, 28672), shared(16, 512)] == [1, 1, 0, 0]


def test_nvcc_takes_the_kernels(golden: Golden, tmp_path, sources: dict[str, tuple[Problem, str]]) -> None:
    texts = [source for _, source in sources.values()]
    if not golden.holds(for_nvcc(texts, "sm_80", "sm_90a"), "nvcc"):
        assert compiled(tmp_path, texts, "sm_90a") == ""


def test_the_first_kernel_writes_no_weights_to_memory() -> None:
    problem = traced(nibbles, *CASES["nibbles"][1])
    draft = first_draft(problem)
    assert "narrow weights" in draft.why and "between" not in draft.source
    moves = RECIPE.moves(problem, Plan.read(draft.source))
    assert [move.name for move in moves] == ["weights in flight"]


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (by_row, [torch.randn(65, 512).bfloat16(), int8(37, 512), SCALES]),  # the tensor cores are busy then
        (by_row, [torch.randn(16, 500).bfloat16(), int8(37, 500), SCALES]),
        (by_row, [torch.randn(16, 512), int8(37, 512), SCALES.float()]),
        (lambda x, w, s: x @ (w.to(x.dtype) * s), [torch.randn(4, 64).half(), int8(64, 32), SCALES[:32].half()]),
        (lambda x, w: x @ w.t(), [torch.randn(4, 64).half(), torch.randn(32, 64).half()]),
    ],
    ids=["65 rows", "an odd k", "float32", "along n in memory", "16 bits"],
)
def test_other_products_are_left_to_others(function: Callable[..., torch.Tensor], given: Inputs) -> None:
    assert not isinstance(RECIPE.first_plan(traced(function, *given)), Plan)
