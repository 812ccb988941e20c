"""The emulated GPU sees what goes wrong: kernels with one line broken never pass there for right ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from cuda_gemm_cases import RECIPE as PRODUCTS
from cuda_gemm_cases import on_gpu
from emulated import emulated
from gemm_cases import rand, trace_fx
from goldens import Golden
from gpu_kernels import A100, H200, traced
from test_cuda_gemm_emulated import PLAIN_FORM, TENSOR, product
from traced import Compiler, Kernel, assert_close, call

from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.rows.recipe import RowRecipe

A, B, X = rand(68, 52), rand(52, 68), rand(5, 1000)
ROWS = {"vector": 1, "keep": 1}
KERNELS: dict[str, dict[str, int | str]] = {
    "plain": PLAIN_FORM, "tensor": TENSOR, "one product": TENSOR | {"products": 1},
    "block": {**ROWS, "items": 16, "group": 64},
    "cluster": {**ROWS, "items": 8, "group": 64, "cluster": 2},
    "staged": {**ROWS, "items": 16, "group": 64, "staged": 1, "chain": 5, "parts": 2},
}  # fmt: skip
# The kernel, what stands in its text, what stands there instead, and what the machine says; "" where only the result is
# wrong.
BROKEN = {
    "a tile is read before it has come": ("tensor", "cp_async_wait<Stages - 2>", "cp_async_wait<Stages - 1>", ""),
    "a tile is filled while it is read": ("tensor", "Stages - 1 : stage - 1", "Stages - 1 : stage", ""),
    "no barrier between two tiles": (
        "plain", "gemm(tCsA, tCsB, tCrS);\n    __syncthreads();", "gemm(tCsA, tCsB, tCrS);", ""),
    "copies that are not aligned": (
        "tensor", "(shared + typename X::Shared{}", "(shared + 1 + typename X::Shared{}", "not aligned"),
    "more shared memory than was asked for": (
        "tensor", "Threads, 1, SharedBytes", "Threads, 1, 4 * SharedBytes", "more shared memory"),
    "a warp without one of its lanes": ("tensor", "  Fragment tCrA[GroupsM];", "  if (lane == 3) return;\n"
                                        "  Fragment tCrA[GroupsM];", "others never reach"),
    "no barrier between warps": (
        "block", "parts[warp] = value; }\n      __syncthreads();", "parts[warp] = value; }", ""),
    "a barrier that half of the threads come to": (
        "block", "parts[warp] = value; }\n      __syncthreads();",
        "parts[warp] = value; }\n      if (threadIdx.x < 32) { __syncthreads(); }", "others never reach"),
    "no barrier between blocks": ("cluster", "      cluster_sync();\n", "", ""),
    "a row is read before it has come": ("staged", "wait_barrier(full[part], turn);", "", ""),
    "a row comes while the last one is read": (
        "staged", "__syncthreads();  // this part", "// this part", ""),
    "turns that do not alternate": ("staged", ", turn ^= 1", "", ""),
    "a part that is fetched twice": (
        "staged", "{ fetch(row + 1, part); }", "{ fetch(row + 1, 0); }", ""),
}  # fmt: skip


def problem_of(kernel: str) -> Problem:
    if "kernel" in KERNELS[kernel]:
        return on_gpu(trace_fx(product, (A, B)), device=A100)
    return traced(lambda x: F.softmax(x, -1), X, device=H200)


def source_of(kernel: str, problem: Problem) -> str:
    knobs = KERNELS[kernel]
    recipe, name = (PRODUCTS, "gemm") if "kernel" in knobs else (RowRecipe(), RowRecipe.name)
    return emulated(recipe.render(problem, Plan(name, dict(knobs))))


@pytest.fixture(scope="module")
def problems() -> dict[str, Problem]:
    return {name: problem_of(name) for name in KERNELS}


@pytest.fixture(scope="module")
def sources(problems: dict[str, Problem]) -> dict[str, str]:
    """The kernels as they are and with a line broken."""
    sources = {name: source_of(name, problems[name]) for name in KERNELS}
    for name, (kernel, old, new, _) in BROKEN.items():
        whole = sources[kernel]
        assert old in whole, (name, old)
        sources[name] = whole.replace(old, new)
    return sources


Built = Callable[..., list[Kernel]]


@pytest.fixture
def changed(golden: Golden, compiler: Compiler, sources: dict[str, str]) -> Built:
    """The kernels of these names; none where the test has passed on their texts."""

    def kernels(*names: str) -> list[Kernel]:
        if golden.holds([sources[name] for name in names], *compiler.flags):
            return []
        compiler.build_all(list(sources.values()))
        return [compiler.build(sources[name]) for name in names]

    return kernels


def assert_right(kernel: Kernel, problem: Problem) -> None:
    inputs = [A, B] if len(problem.inputs) == 2 else [X]
    function = product if len(inputs) == 2 else lambda x: F.softmax(x, -1)
    (got,) = call(kernel, problem, inputs)
    assert_close(got, function(*inputs), function(*(each.double() for each in inputs)), "result")


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "one product"])
def test_whole_kernels_pass(name: str, changed: Built, problems: dict[str, Problem]) -> None:
    for kernel in changed(name):
        assert_right(kernel, problems[name])


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_one_does_not(name: str, changed: Built, problems: dict[str, Problem]) -> None:
    whole, _, _, said = BROKEN[name]
    for kernel in changed(name):
        with pytest.raises(RuntimeError if said else (AssertionError, RuntimeError)) as failure:
            assert_right(kernel, problems[whole])
        assert said in str(failure.value)


def test_products_of_a_warp_drop_what_tf32_has_no_bits_for(changed: Built, problems: dict[str, Problem]) -> None:
    """Numbers with 24 bits: one product takes 11 of them, and the nearest; three take all."""
    a, b = torch.full_like(A, 1 + 2.0**-23), torch.eye(*B.shape)
    if not (kernels := changed("one product", "tensor")):
        return
    (single,), (all_three,) = (call(kernel, problems["tensor"], [a, b]) for kernel in kernels)
    assert torch.equal(single, torch.ones_like(a) @ b)
    assert torch.equal(all_three, a @ b)
