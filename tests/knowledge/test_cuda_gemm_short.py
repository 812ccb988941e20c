"""Products of short K whose tiles are stored beside other tiles' products: where that applies, and what it takes."""

from __future__ import annotations

import pytest
import torch
from cuda_gemm_cases import H200, LEVEL1, RECIPE, Kernels, build, on_gpu, shaped
from gemm_cases import rand, trace_fx
from gpu_kernels import for_nvcc

from harness.building.toolchain import cuda_compiler
from harness.nouns.errors import MachineError
from harness.screen.source import screen_source
from knowledge.compiler.problem import Device
from knowledge.compiler.schedule.gemm import cuda_fused as fused
from knowledge.compiler.schedule.gemm import cuda_short as short
from knowledge.compiler.schedule.gemm.product import form_of


def test_it_is_for_short_k_and_rows_of_c_at_multiples_of_16_bytes():
    assert [number for number in LEVEL1 if short.suits(LEVEL1[number], form_of(LEVEL1[number]))] == [7, 9]
    for odd in (shaped(4096, 4097, 64), shaped(4096, 4096, 65), shaped(128, 4096, 64)):
        assert not short.suits(odd, form_of(odd))
    ampere = on_gpu(LEVEL1[9], device=Device(architecture="sm_80", multiprocessors=108, shared_bytes=163 << 10))
    assert not short.suits(ampere, form_of(ampere)) and not short.suits(
        on_gpu(LEVEL1[9], precision="tf32"), form_of(LEVEL1[9])
    )


def test_its_tiles_fit_shared_memory_and_lead_to_each_other():
    problem, form = LEVEL1[7], form_of(LEVEL1[7])
    (narrow,) = short.moves(short.first_plan())
    (wide,) = short.moves(narrow.plan)
    assert wide.plan == short.first_plan()
    (move, *_) = RECIPE.moves(problem, fused.first_plan(problem, form))
    assert move.plan == short.first_plan() and [each.name for each in RECIPE.moves(problem, move.plan)] == [narrow.name]
    for plan in (wide.plan, narrow.plan):
        held = 128 * 64 * 8 + int(plan.knobs["bn"]) * 32 * 8 * int(plan.knobs["stages"]) + 32768
        assert held + 1024 <= H200.shared_bytes and "C 32768 bytes" in short.describe(problem, form, plan)[1]
        assert f"using BLK_N = Int<{plan.knobs['bn']}>;" in RECIPE.render(problem, plan)


@pytest.mark.timeout(900)
def test_kernels_compile_without_spills_or_serialized_instructions(golden, tmp_path):
    cases = [(torch.matmul, (rand(300, 45), rand(45, 332)), {}),
             (torch.bmm, (rand(3, 140, 32), rand(3, 32, 260)), {"bn": 64, "stages": 8})]  # fmt: skip
    sources = [
        RECIPE.render(on_gpu(trace_fx(function, inputs)), short.first_plan().with_knobs(**knobs))
        for function, inputs, knobs in cases
    ]
    assert all(screen_source(source, frozenset({"float32", "ieee"})) is None for source in sources)
    if golden.holds(for_nvcc(sources, "sm_90a")):
        return
    try:
        cuda_compiler()
    except MachineError as failure:
        pytest.skip(str(failure))
    kernels: Kernels = build(sources, tmp_path, ("90a",))
    assert "serialized" not in kernels.said and max(kernels.spilled()) == 0
