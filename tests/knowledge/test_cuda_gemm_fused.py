"""Products by wgmma with operands split on their way: when they are tried, what they share, and that they are right."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from cuda_gemm_cases import LEVEL1, RECIPE, Kernels, build, on_gpu, shaped
from gemm_cases import PLAIN, STEPS, rand, trace_fx
from gpu_kernels import for_nvcc
from traced import scaled_error

from harness.building.toolchain import cuda_compiler
from harness.machine.gpu import find_gpu
from harness.nouns.errors import MachineError
from harness.screen.source import screen_source
from knowledge.compiler.plan import Move
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.gemm import cuda_fused as fused
from knowledge.compiler.schedule.gemm import cuda_tensor as tensor
from knowledge.compiler.schedule.gemm import cuda_wgmma as wgmma
from knowledge.compiler.schedule.gemm.product import form_of

GPU = find_gpu()
HOPPER = pytest.mark.skipif(GPU is None or GPU.architecture != "sm_90a", reason="no Hopper GPU answers here")


def kernels(number: int) -> list[object]:
    problem = LEVEL1[number]
    return [move.plan.knobs["kernel"] for move in RECIPE.moves(problem, RECIPE.first_plan(problem))]


def test_it_comes_first_and_splitting_beforehand_next_where_that_pays():
    assert kernels(1)[:3] == kernels(7)[:3] == [fused.KERNEL, wgmma.KERNEL, tensor.KERNEL]
    for number in (6, 14, 15):
        assert kernels(number)[:2] == [fused.KERNEL, tensor.KERNEL]
    problem = LEVEL1[1]
    move, *_ = RECIPE.moves(problem, RECIPE.first_plan(problem))
    following, *_ = RECIPE.moves(problem, move.plan)
    assert following.plan.knobs["kernel"] == wgmma.KERNEL and following.sure
    short = LEVEL1[9]
    beside, *others, last = RECIPE.moves(short, fused.first_plan(short, form_of(short)))
    assert beside.name == "stores beside products" and not beside.sure
    assert last.plan.knobs["kernel"] == wgmma.KERNEL and not any(each.sure for each in (*others, last))


def test_it_needs_hopper_and_float32s_accuracy():
    ampere = Device(architecture="sm_80", multiprocessors=108, shared_bytes=163 << 10)
    assert not fused.suits(on_gpu(LEVEL1[1], device=ampere))
    assert not fused.suits(on_gpu(LEVEL1[1], precision="tf32"))
    assert fused.suits(LEVEL1[1])


def test_k_is_shared_among_idle_multiprocessors_and_triangles_are_not():
    plans = {number: fused.first_plan(LEVEL1[number], form_of(LEVEL1[number])) for number in (1, 6, 14)}
    assert [plans[number].knobs["splits"] for number in plans] == [1, 33, 1]
    assert [plans[number].knobs["spans"] for number in plans] == [0, 0, 1]
    text = fused.knobs_text(LEVEL1[14], form_of(LEVEL1[14]), plans[14])
    assert "Triangle = 1;" in text and "SkipZeros = true;" in text and "Blocks = 132;" in text


def moves_of(problem: Problem) -> tuple[Move, ...]:
    """From the first plan."""
    form = form_of(problem)
    return fused.moves(problem, form, fused.first_plan(problem, form))


def test_only_aligned_k_major_operands_are_read_by_vectors():
    copies = {}
    for number in (1, 8, 17, 18):
        text = fused.knobs_text(
            LEVEL1[number], form_of(LEVEL1[number]), fused.first_plan(LEVEL1[number], form_of(LEVEL1[number]))
        )
        copies[number] = tuple(int(count) for count in re.findall(r"Copy[AB] = (\d);", text))
    assert copies == {1: (4, 1), 8: (1, 1), 17: (4, 4), 18: (1, 4)}


def test_moves_change_producers_and_order():
    names = {number: [move.name for move in moves_of(LEVEL1[number])] for number in (1, 14)}
    assert names.pop(14)[0] == "even shares"
    plan = fused.first_plan(LEVEL1[14], form_of(LEVEL1[14])).with_knobs(even=1)
    names[14] = [move.name for move in fused.moves(LEVEL1[14], form_of(LEVEL1[14]), plan)]
    assert "Even = true;" in RECIPE.render(LEVEL1[14], plan)
    assert names[14] == ["one producer warpgroup", "tile 128x64, 4 stages"]
    assert names[1] == ["raster order 4", "raster order 16", *names[14]]
    assert moves_of(LEVEL1[9])[0].name == "one producer warpgroup"


def test_every_move_changes_the_kernel_and_has_a_way_back():
    problem = shaped(1664, 1664, 4096)
    for move in moves_of(problem):
        assert move.against
        back = [each.plan for each in fused.moves(problem, form_of(problem), move.plan)]
        assert move.plan not in back and len({RECIPE.render(problem, plan) for plan in (move.plan, *back)}) > len(back)


def test_a_short_last_wave_is_cut_into_equal_shares():
    short = shaped(1664, 1664, 4096)  # 169 tiles for 132 multiprocessors
    move, *_ = moves_of(short)
    assert move.name == "stream K" and move.plan.knobs["kernel"] == fused.STREAM_K
    assert "Blocks = 132;" in RECIPE.render(short, move.plan) and "Splits" not in RECIPE.render(short, move.plan)
    assert "stream K" not in [each.name for each in fused.moves(short, form_of(short), move.plan)]
    for other in (LEVEL1[1], LEVEL1[14], shaped(256, 256, 64)):
        assert "stream K" not in [each.name for each in moves_of(other)]


# The forward, its inputs, and knobs other than the first ones.
Case = tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...], dict[str, int | str]]
CASES: dict[str, Case] = {
    "odd": (lambda a, b: a @ b, (rand(205, 77), rand(77, 149)), {}),
    "both transposed": (lambda a, b: a.T @ b.T, (rand(1000, 300), rand(140, 1000)), {"producers": 128}),
    "batches": (torch.bmm, (rand(3, 140, 36), rand(3, 36, 70)), {}),
    "k shared": (lambda a, b: a @ b, (rand(130, 1003), rand(1003, 131)), {"splits": 5}),
    "stream k": (lambda a, b: a @ b, (rand(1001, 300), rand(300, 1102)), {"kernel": fused.STREAM_K}),
    "stream k, narrow tiles": (torch.bmm, (rand(2, 300, 500), rand(2, 500, 301)),
                               {"kernel": fused.STREAM_K, "bn": 64, "stages": 4, "producers": 128}),
    "upper": (lambda a, b: torch.triu(a @ b), (rand(515, 515).triu(), rand(515, 515).triu()), {}),
    "lower in even shares": (lambda a, b: torch.tril(a @ b), (rand(515, 515).tril(), rand(515, 515).tril()),
                             {"even": 1}),
    "dense to lower": (lambda a, b: torch.tril(a @ b, -3), (rand(260, 300), rand(300, 280)), {}),
    "gelu": (*(PLAIN | STEPS)["gelu"], {}),
}  # fmt: skip


@pytest.fixture(scope="module")
def sources() -> list[str]:
    """All cases rendered."""
    sources = []
    for function, inputs, changed in CASES.values():
        problem = on_gpu(trace_fx(function, inputs))
        sources.append(RECIPE.render(problem, fused.first_plan(problem, form_of(problem)).with_knobs(**changed)))
    assert all(screen_source(source, frozenset({"float32", "ieee"})) is None for source in sources)
    return sources


@pytest.fixture(scope="module")
def built(sources: list[str], tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    """All cases in one build."""
    try:
        cuda_compiler()
    except MachineError as failure:
        pytest.skip(str(failure))
    kernels = build(sources, tmp_path_factory.mktemp("fused"), ("90a",))
    assert "serialized" not in kernels.said
    assert max(kernels.spilled()) <= 64
    return kernels


@pytest.mark.timeout(900)
def test_kernels_compile_without_serialized_instructions(golden, sources, request):
    if golden.holds(for_nvcc(sources, "sm_90a")):
        return
    built = request.getfixturevalue("built")
    assert all(library.is_file() for library, _ in built.parts)


def answer(built: Kernels, name: str, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    expected = CASES[name][0](*inputs)
    out = torch.full(expected.shape, torch.nan, device="cuda")
    run = built.run(list(CASES).index(name))
    run(*(each.cuda() for each in inputs), out)
    return out.cpu()


@pytest.mark.gpu
@HOPPER
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [1.0, 1e-5, 1e3])
def test_as_exact_as_float32(built, name, size):
    function, inputs, _ = CASES[name]
    inputs = tuple(each * size for each in inputs)
    expected, oracle = function(*inputs), function(*(each.double() for each in inputs))
    allowed = 4 * scaled_error(expected, oracle) + 8 * torch.finfo(torch.float32).eps
    assert scaled_error(answer(built, name, inputs), oracle) <= allowed


@pytest.mark.gpu
@HOPPER
@pytest.mark.parametrize("name", ["odd", "k shared", "dense to lower", "stream k"])
def test_infinities_and_nan_go_where_float32_puts_them(built, name):
    a, b = (each.clone() for each in CASES[name][1])
    a[3, 5], a[7, 9], b[11, 13], b[20, 20] = torch.inf, torch.nan, -torch.inf, 3e38
    expected, got = CASES[name][0](a, b), answer(built, name, (a, b))
    special = ~torch.isfinite(expected)
    assert torch.equal(got[special].nan_to_num(7.0), expected[special].nan_to_num(7.0))
    assert torch.isfinite(got[~special]).all()
