"""Products of 16-bit types on a GPU: what they are copied by, what follows them, and that they are right."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from cuda_gemm_cases import RECIPE, Kernels, build, on_gpu
from gemm_cases import rand, trace_fx
from gpu_kernels import for_nvcc

from harness.building.toolchain import cuda_compiler
from harness.machine.gpu import find_gpu
from harness.nouns.errors import MachineError
from harness.screen.source import screen_source
from knowledge.compiler.plan import Decline, Move, Plan
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.gemm import cuda_16bit as narrow

GPU = find_gpu()
HALF, BRAIN = torch.float16, torch.bfloat16
Case = tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...], int]
# The forward, its inputs, and how many moves are made.
CASES: dict[str, Case] = {
    "odd": (lambda a, b: a @ b, (rand(205, 77, dtype=HALF), rand(77, 149, dtype=HALF)), 0),
    "even, both transposed": (lambda a, b: a.T @ b.T, (rand(78, 206, dtype=BRAIN), rand(150, 78, dtype=BRAIN)), 1),
    "linear, gelu": (
        lambda x, w, b: torch.nn.functional.gelu(torch.nn.functional.linear(x, w, b)) * 0.1,
        (rand(200, 96, dtype=BRAIN), rand(136, 96, dtype=BRAIN), rand(136, dtype=BRAIN)),
        1,
    ),
    "batches, residual": (
        lambda a, b, c: torch.relu(torch.bmm(a, b) + c),
        (rand(3, 136, 40, dtype=HALF), rand(3, 40, 72, dtype=HALF), rand(3, 136, 72, dtype=HALF)),
        2,
    ),
    "upper": (lambda a, b: torch.triu(a @ b), (rand(136, 200, dtype=HALF), rand(200, 136, dtype=HALF)), 1),
}


A100 = Device(architecture="sm_80", multiprocessors=108, shared_bytes=163 << 10)


def problem_of(name: str, device: Device = A100) -> Problem:
    function, inputs, _ = CASES[name]
    return on_gpu(trace_fx(function, inputs), device=device)


def plan_of(name: str) -> Plan:
    """After the case's moves on an A100, each the first that is left."""
    problem = problem_of(name)
    plan = RECIPE.first_plan(problem)
    assert isinstance(plan, Plan)
    for _ in range(CASES[name][2]):
        plan = RECIPE.moves(problem, plan)[0].plan
    return plan


def moves_of(name: str, device: Device = A100) -> tuple[Move, ...]:
    return RECIPE.moves(problem_of(name, device), narrow.first_plan())


def test_elements_come_alone_first_then_by_as_many_as_fit():
    def copies(name: str, plan: Plan) -> list[str]:
        return re.findall(r"(?:Copy[AB]|StoreC) = (\d);", RECIPE.render(problem_of(name), plan))

    assert copies("linear, gelu", narrow.first_plan()) == ["1", "1", "1"]
    assert copies("linear, gelu", plan_of("linear, gelu")) == ["8", "8", "2"]
    assert copies("even, both transposed", plan_of("even, both transposed")) == ["2", "2", "2"]
    assert "vector access, 3 stages" not in [move.name for move in moves_of("odd")]


def test_moves_fit_the_device_and_say_what_they_are_against():
    small = Device(architecture="sm_86", multiprocessors=80, shared_bytes=99 << 10)
    large, fitting = moves_of("linear, gelu"), moves_of("linear, gelu", small)
    assert {move.name for move in large} - {move.name for move in fitting} == {
        "tile 256x128, warp 64x64",
        "4 stages",
    }
    assert all(move.against for move in large)
    assert large[0].name == "vector access, 3 stages" and "warp 64x64" in large[1].name


def test_steps_are_computed_in_float32_and_rounded_once():
    source = RECIPE.render(problem_of("linear, gelu"), plan_of("linear, gelu"))
    assert "using T = bfloat16_t;" in source and "code == kDLBfloat" in source
    assert "T operator()(float x," in source and "float const d0 = D0" in source
    assert "x = x + d0;" in source and "x = x * float(0.1" in source and "return T(x);" in source
    assert screen_source(source, frozenset({"bfloat16", "ieee"})) is None
    assert screen_source(source, frozenset({"float32", "ieee"})) is not None


def test_cpus_and_older_gpus_are_told():
    problem = problem_of("odd")
    for changed in ({"target": "cpu"}, {"device": Device(architecture="sm_75", multiprocessors=40)}):
        answer = RECIPE.first_plan(problem.model_copy(update=changed))
        assert isinstance(answer, Decline) and "float16" in answer.reason


@pytest.fixture(scope="module")
def sources() -> list[str]:
    """All cases rendered."""
    return [RECIPE.render(problem_of(name), plan_of(name)) for name in CASES]


@pytest.fixture(scope="module")
def built(sources: list[str], tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    """All cases in one build."""
    folder, architecture = tmp_path_factory.mktemp("narrow"), GPU.architecture if GPU else "sm_80"
    try:
        cuda_compiler()
    except MachineError as failure:
        pytest.skip(str(failure))
    kernels = build(sources, folder, (architecture.removeprefix("sm_"),))
    assert max(kernels.spilled()) <= 160
    return kernels


@pytest.mark.timeout(900)
def test_kernels_compile(golden, sources, request):
    if golden.holds(for_nvcc(sources, "sm_80")):
        return
    built = request.getfixturevalue("built")
    assert all(library.is_file() for library, _ in built.parts)


@pytest.mark.gpu
@pytest.mark.skipif(GPU is None, reason="no NVIDIA GPU answers here")
@pytest.mark.parametrize("name", CASES)
def test_no_further_from_float64_than_pytorch(built, name):
    function, inputs, _ = CASES[name]
    oracle = function(*(each.double() for each in inputs))
    expected = function(*(each.cuda() for each in inputs)).cpu()
    out = torch.full(expected.shape, torch.nan, device="cuda", dtype=expected.dtype)
    built.run(list(CASES).index(name))(*(each.cuda() for each in inputs), out)
    allowed = 1.5 * (expected.double() - oracle).norm() + 1e-4 * oracle.norm()
    assert (out.cpu().double() - oracle).norm() <= allowed
