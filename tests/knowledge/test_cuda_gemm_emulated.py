"""Products for GPUs compute what torch does, where no GPU is: at the edges of tiles, of every form without wgmma."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from cuda_gemm_cases import RECIPE, on_gpu
from emulated import emulated
from gemm_cases import PLAIN, STEPS, Case, rand, trace_fx
from goldens import Golden
from gpu_kernels import A100
from traced import Compiler, assert_close, call

from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.gemm import cuda_simt as simt
from knowledge.compiler.schedule.gemm import cuda_tensor as tensor


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


SMALL = {"bm": 64, "bn": 64, "bk": 16}
TENSOR = {**SMALL, "kernel": tensor.KERNEL, "wm": 32, "wn": 32, "stages": 3, "blocks": 1, "splits": 1, "group": 2,
          "spans": 0, "products": 3}  # fmt: skip
CLUSTER = {**SMALL, "kernel": tensor.CLUSTER, "bk": 32, "wm": 32, "wn": 32, "stages": 3, "blocks": 4, "splits": 3,
           "products": 3}  # fmt: skip
PLAIN_FORM = {"kernel": simt.KERNEL, "bm": 64, "bn": 64, "bk": 8}

# The forward, its inputs, and the plan's knobs.
CASES: dict[str, tuple[Case, dict[str, int | str]]] = {
    "plain, one row": ((product, (rand(1, 13), rand(13, 67))), PLAIN_FORM),
    "plain, long sums": ((product, (rand(21, 20_001).abs(), rand(20_001, 13).abs())), PLAIN_FORM),
    "plain, both transposed": ((lambda a, b: a.T @ b.T, (rand(20, 68), rand(132, 20))), PLAIN_FORM),
    "plain, large tiles": ((product, (rand(5, 36), rand(36, 140))), PLAIN_FORM | {"bm": 128, "bn": 128}),
    "plain, batches, k shorter than a tile": ((torch.bmm, (rand(3, 64, 3), rand(3, 3, 8))), PLAIN_FORM),
    "tensor, primes": ((product, (rand(67, 37), rand(37, 71))), TENSOR),
    "tensor, aligned": ((product, (rand(68, 36), rand(36, 72))), TENSOR),
    "tensor, its first tile": ((product, (rand(66, 40), rand(40, 132))), TENSOR | tensor.TILES[0].knobs()),
    "tensor, one column": ((product, (rand(66, 21), rand(21, 2))), TENSOR),
    "tensor, both transposed": ((lambda a, b: a.T @ b.T, (rand(36, 68), rand(8, 36))), TENSOR | {"bk": 32}),
    "tensor, k shared": ((product, (rand(35, 131), rand(131, 33))), TENSOR | {"splits": 3}),
    "tensor, k shared, aligned": ((product, (rand(36, 132), rand(132, 36))), TENSOR | {"splits": 4}),
    "tensor, upper": ((lambda a, b: torch.triu(a @ b), (rand(131, 20).triu(), rand(20, 70).triu())), TENSOR),
    "tensor, lower and sparse": ((lambda a, b: torch.tril(a @ b, -3), (rand(131, 131).tril(), rand(131, 131).tril())),
                                 TENSOR | {"spans": 1}),
    "tensor, batches and steps": ((lambda a, b, c: F.gelu(torch.bmm(a, b) * 0.5 + c),
                                   (rand(2, 33, 20), rand(2, 20, 36), rand(2, 33, 36))), TENSOR),
    "tensor, a column added": (STEPS["column added"], TENSOR),
    "tensor, result transposed": (PLAIN["result transposed"], TENSOR),
    "tensor, sideways": (PLAIN["einsum sideways"], TENSOR | {"splits": 2}),
    "cluster, odd": ((product, (rand(67, 131), rand(131, 33))), CLUSTER),
    "cluster, a layer": ((lambda x, w, b: F.relu(F.linear(x, w, b)), (rand(64, 160), rand(12, 160), rand(12))),
                         CLUSTER | {"splits": 4}),
    "cluster, more blocks than tiles of K": ((product, (rand(5, 70), rand(70, 136))), CLUSTER | {"splits": 8}),
    "cluster, batches across K": ((lambda a, b: torch.bmm(a, b.mT).T, (rand(2, 70, 100), rand(2, 40, 100))),
                                  CLUSTER | {"splits": 2}),
}  # fmt: skip


@pytest.fixture(scope="module")
def sources() -> dict[str, tuple[Problem, str]]:
    """All cases."""
    problems = {name: on_gpu(trace_fx(*case), device=A100) for name, (case, _) in CASES.items()}
    return {
        name: (problems[name], emulated(RECIPE.render(problems[name], Plan("gemm", knobs))))
        for name, (_, knobs) in CASES.items()
    }


Emulated = Callable[[str], Callable[..., torch.Tensor] | None]


@pytest.fixture
def changed(golden: Golden, compiler: Compiler, sources: dict[str, tuple[Problem, str]]) -> Emulated:
    """A case's kernel as a function; none where the test has passed on its text."""

    def kernel(name: str) -> Callable[..., torch.Tensor] | None:
        problem, source = sources[name]
        if golden.holds([source], *compiler.flags):
            return None
        compiler.build_all([each for _, each in sources.values()])
        return lambda *inputs: call(compiler.build(source), problem, inputs)[0]

    return kernel


LONG = "plain, long sums"


@pytest.mark.parametrize("name", [name for name in CASES if name != LONG])
def test_emulated_products_are_as_right_as_torch(name: str, changed: Emulated) -> None:
    function, inputs = CASES[name][0]
    if kernel := changed(name):
        got = kernel(*inputs)
        assert_close(got, function(*inputs), function(*(each.double() for each in inputs)), name)


@pytest.mark.parametrize("name", ["plain, one row", LONG])
def test_sums_of_the_plain_form_stay_exact_over_a_long_k(name: str, changed: Emulated) -> None:
    _, (a, b) = CASES[name][0]
    if kernel := changed(name):
        exact = a.double() @ b.double()
        assert (kernel(a, b) - exact).norm() <= 2e-7 * exact.norm()


@pytest.mark.parametrize("name", ["tensor, primes", "tensor, k shared", "tensor, lower and sparse", "cluster, odd"])
def test_infinities_and_nan_go_where_float32_puts_them(name: str, changed: Emulated) -> None:
    if not (kernel := changed(name)):
        return
    function, inputs = CASES[name][0]
    a, b = (each.clone() for each in inputs)
    a[3, 5], a[7, 9], b[11, 7], b[20, 9] = torch.inf, torch.nan, -torch.inf, 3e38
    got = kernel(a, b)
    expected = function(a, b)
    special = ~torch.isfinite(expected)
    assert special.any() and torch.equal(got[special].nan_to_num(7.0), expected[special].nan_to_num(7.0))
    assert torch.isfinite(got[~special]).all()
