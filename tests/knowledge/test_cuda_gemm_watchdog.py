"""No Hopper kernel hangs under any knob in its domain: each runs in a process that is ended when it takes too long."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from cuda_gemm_cases import H200, RECIPE, build, on_gpu
from gemm_cases import rand, trace_fx

from harness.machine.gpu import find_gpu
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.gemm import cuda_decode as decode
from knowledge.compiler.schedule.gemm import cuda_fused as fused
from knowledge.compiler.schedule.gemm import cuda_hopper as hopper
from knowledge.compiler.schedule.gemm import cuda_short as short
from knowledge.compiler.schedule.gemm import cuda_wgmma as wgmma
from knowledge.compiler.schedule.gemm.product import form_of

GPU = find_gpu()
HOPPER = pytest.mark.skipif(GPU is None or GPU.architecture != "sm_90a", reason="no Hopper GPU answers here")
B16 = torch.bfloat16
SHAPE, FEW, SHORT = (517, 456, 264), (40, 1000, 1096), (1155, 45, 1412)
"""Rows, k's and columns: several tiles of every size, edges both ways, and more blocks than tiles."""
ENDED_S = 60
# Loads one kernel, calls it twice on the GPU, and prints whether its result is near float64's.
RUN = """
import sys, torch, tvm_ffi
library, entry, m, k, n = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
dtype = getattr(torch, sys.argv[6])
generator = torch.Generator("cuda").manual_seed(1)
a, b = (torch.randn(s, generator=generator, device="cuda").to(dtype) for s in ((m, k), (k, n)))
out = torch.full((m, n), torch.nan, device="cuda", dtype=dtype)
for _ in range(2):
    getattr(tvm_ffi.load_module(library), entry)(a, b, out)
torch.cuda.synchronize()
exact = a.double() @ b.double()
print("near" if (out.double() - exact).norm() < 0.01 * exact.norm() else "wrong")
"""


def problem(m: int, k: int, n: int, dtype: torch.dtype = B16) -> Problem:
    return on_gpu(trace_fx(lambda a, b: a @ b, (rand(m, k, dtype=dtype), rand(k, n, dtype=dtype))), device=H200)


def dtype_of(plan: Plan) -> torch.dtype:
    return B16 if plan.knobs["kernel"] in (hopper.KERNEL, decode.KERNEL) else torch.float32


def plans() -> Iterator[tuple[tuple[int, int, int], Plan]]:
    """Every tile with every cluster, alone and with a shared K, the fewest stages and panels; then decoding ones."""
    for place, tile in enumerate(hopper.TILES):
        for cluster in (1, 2, 4):
            splits = 1 if tile["pingpong"] else (1, 3, 8)[(place + cluster) % 3]
            knobs = {**tile, "cluster": cluster, "group": 1 + 7 * (place % 2), "splits": splits}
            fewest = {"stages": 2, "panels": 1} if cluster == 1 else {}
            yield SHAPE, Plan("gemm", {"kernel": hopper.KERNEL, **knobs, **fewest})
    few = problem(*FEW)
    first = decode.first_plan(few, form_of(few))
    yield from ((FEW, first.with_knobs(cluster=cluster, stages=stages)) for cluster, stages in ((1, 2), (4, 9), (8, 3)))


def float32_plans() -> Iterator[tuple[tuple[int, int, int], Plan]]:
    """Split on the way and beforehand, every tile, cluster and number of producers; then stores beside products."""
    on_the_way = Plan("gemm", {"kernel": fused.KERNEL, "group": 8, "splits": 1, "spans": 0})
    for bn, stages, producers in ((128, 3, 256), (128, 2, 128), (64, 4, 256), (64, 2, 128)):
        way = on_the_way.with_knobs(bn=bn, stages=stages, producers=producers)
        yield SHAPE, way.with_knobs(splits=1 + bn // 64)
    for cluster, (bn, stages) in zip((1, 2, 4), ((192, 2), (128, 3), (64, 4)), strict=True):
        yield SHAPE, wgmma.first_plan().with_knobs(cluster=cluster, bn=bn, stages=stages)
    yield SHORT, wgmma.first_plan().with_knobs(stages=1, blocks=2)
    for bn, stages in ((128, 4), (128, 2), (64, 8), (64, 3)):
        yield SHORT, short.first_plan().with_knobs(bn=bn, stages=stages)


def test_the_domain_is_whole() -> None:
    found = [plan.knobs for _, plan in plans()]
    assert {(each["bm"], each["bn"], each["pingpong"]) for each in found if "bm" in each} == {
        (tile["bm"], tile["bn"], tile["pingpong"]) for tile in hopper.TILES
    }
    assert {each["cluster"] for each in found} == {1, 2, 4, 8} and {each.get("splits") for each in found} > {1, 3, 8}
    for _, plan in plans():
        if plan.knobs["kernel"] == hopper.KERNEL:
            assert hopper.shared_bytes(plan) <= hopper.SHARED_BYTES


@pytest.mark.gpu
@HOPPER
@pytest.mark.timeout(900)
def test_no_plan_hangs(tmp_path: Path) -> None:
    cases = [*plans(), *float32_plans()]
    sources = [RECIPE.render(problem(*shape, dtype_of(plan)), plan) for shape, plan in cases]
    built = build(sources, tmp_path, ("90a",))
    libraries = [(library, number) for library, count in built.parts for number in range(count)]
    for (shape, plan), (library, number) in zip(cases, libraries, strict=True):
        command = [sys.executable, "-c", RUN, str(library), f"run{number}", *map(str, shape)]
        command.append(str(dtype_of(plan)).removeprefix("torch."))
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ENDED_S)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{plan.knobs} does not end")
        assert done.stdout.strip() == "near", f"{plan.knobs}: {done.stdout}{done.stderr[-500:]}"
