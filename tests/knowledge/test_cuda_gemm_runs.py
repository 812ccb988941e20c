"""What the GEMM recipe writes for a GPU, run there: right to float32's grade on odd shapes, and clean of bad reads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cuda_gemm_cases import H200, RECIPE, build, built_before, on_gpu, tensor_plan
from gemm_cases import PLAIN, STEPS, rand, trace_fx
from traced import scaled_error

from harness.machine.gpu import find_gpu
from knowledge.compiler.plan import Plan
from knowledge.compiler.schedule.gemm import cuda_tensor as tensor

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(find_gpu() is None, reason="no NVIDIA GPU answers here")]

BUILT = "CUTEGEN_TEST_PRODUCTS"

Case = tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...], dict[str, int | str]]


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


CLUSTER: dict[str, int | str] = {"kernel": tensor.CLUSTER, **tensor.TILES[-1].knobs(), "blocks": 2}
# The forward, its inputs, and knobs of the tensor-core kernel other than its first.
CASES: dict[str, Case] = {
    "odd": (product, (rand(205, 77), rand(77, 149)), {}),
    "odd, both transposed": (lambda a, b: a.T @ b.T, (rand(77, 205), rand(149, 77)), {}),
    "left transposed": (lambda a, b: a.T @ b, (rand(100, 260), rand(100, 132)), {}),
    "right transposed": (lambda a, b: a @ b.T, (rand(260, 100), rand(132, 100)), {}),
    "batches": (torch.bmm, (rand(3, 140, 36), rand(3, 36, 70)), {}),
    "k shared": (product, (rand(130, 1003), rand(1003, 131)), {"splits": 5}),
    "k shared, aligned": (product, (rand(128, 1024), rand(1024, 64)), {"splits": 4}),
    "k shared by a cluster": (product, (rand(130, 1003), rand(1003, 131)), CLUSTER | {"splits": 8}),
    "k shared by a small cluster, aligned": (product, (rand(64, 160), rand(160, 128)), CLUSTER | {"splits": 3}),
    "upper": (lambda a, b: torch.triu(a.triu() @ b.triu()), (rand(515, 515), rand(515, 515)), {"spans": 1}),
    "dense to upper": (lambda a, b: torch.triu(a @ b), (rand(260, 300), rand(300, 280)), {"spans": 1}),
    "lower": (lambda a, b: torch.tril(a @ b, -3), (rand(300, 300).tril(), rand(300, 300).tril()), {"spans": 1}),
    "64 x 64 tiles": (product, (rand(205, 77), rand(77, 149)), {"bm": 64, "bn": 64, "wm": 32, "wn": 32}),
    "deep tiles": (product, (rand(205, 300), rand(300, 149)), {"bk": 32, "stages": 3}),
    "64 x 32 warps": (product, (rand(205, 300), rand(300, 149)), {"wm": 64, "wn": 32}),
}
CASES["upper"] = (lambda a, b: torch.triu(a @ b), tuple(each.triu() for each in CASES["upper"][1]), {"spans": 1})
for name in ("gelu", "attention scores", "transposed sum", "column added", "matmul with broadcast batches"):
    CASES[name] = (*(PLAIN | STEPS)[name], {})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For each case the plain kernel and the tensor cores', built together; under the sanitizer, built before."""
    if BUILT in os.environ:
        return Path(os.environ[BUILT])
    folder = tmp_path_factory.mktemp("kernels")
    sources = []
    for function, inputs, knobs in CASES.values():
        problem = on_gpu(trace_fx(function, inputs))
        plain = RECIPE.first_plan(problem)
        assert isinstance(plain, Plan)
        plan = tensor_plan(problem)
        sources += [RECIPE.render(problem, plain), RECIPE.render(problem, plan.with_knobs(**knobs))]
    build(sources, folder, (H200.architecture.removeprefix("sm_"),))
    return folder


@pytest.fixture(scope="module")
def kernels(folder: Path) -> dict[str, tuple[Any, Any]]:
    """Each case's two entry points."""
    built = built_before(folder)
    runs = [built.run(number) for number in range(2 * len(CASES))]
    return dict(zip(CASES, zip(runs[::2], runs[1::2], strict=True), strict=True))


def answer(run: Any, function: Callable[..., torch.Tensor], inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """The kernel's result, out of a buffer that was poisoned."""
    there = [each.cuda() for each in inputs]
    expected = function(*inputs)
    out = torch.empty_strided(expected.shape, expected.stride(), device="cuda").fill_(torch.nan)
    run(*there, out)
    torch.cuda.synchronize()
    return out.cpu()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [1.0, 1e-5, 1e3])
def test_as_exact_as_float32(kernels, name, size):
    function, inputs, _ = CASES[name]
    inputs = tuple(each * size for each in inputs)
    oracle = function(*(each.double() for each in inputs))
    allowed = 4 * scaled_error(function(*inputs), oracle) + 8 * torch.finfo(torch.float32).eps
    for run in kernels[name]:
        assert scaled_error(answer(run, function, inputs), oracle) <= allowed


@pytest.mark.parametrize("name", ["odd", "k shared", "dense to upper"])
def test_infinities_and_nan_go_where_float32_puts_them(kernels, name):
    function, inputs, _ = CASES[name]
    a, b = (each.clone() for each in inputs)
    a[3, 5], a[7, 9], b[11, 13], b[20, 20] = torch.inf, torch.nan, -torch.inf, 3e38
    expected = function(a, b)
    for run in kernels[name]:
        got = answer(run, function, (a, b))
        special = ~torch.isfinite(expected)
        assert torch.equal(got[special].nan_to_num(7.0), expected[special].nan_to_num(7.0))
        assert torch.isfinite(got[~special]).all()


def test_no_access_is_out_of_bounds(folder):
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not installed")
    command = [
        sanitizer, "--tool", "memcheck", "--error-exitcode", "9", sys.executable, "-m", "pytest", "-q", "-x", "-p",
        "no:cacheprovider", __file__, "-k", "as_exact_as_float32 and 1.0",
    ]  # fmt: skip
    environment = {**os.environ, BUILT: str(folder)}
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]
