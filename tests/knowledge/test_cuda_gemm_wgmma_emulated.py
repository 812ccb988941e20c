"""Float32's products by wgmma where no GPU is: every tile once, both parts, no stage filled or left too early."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from emulated_products import Broken, Cases, Emulated
from gemm_cases import rand
from goldens import Golden
from traced import Compiler

from knowledge.compiler.schedule.gemm import cuda_fused as fused
from knowledge.compiler.schedule.gemm import cuda_short as short
from knowledge.compiler.schedule.gemm import cuda_wgmma as wgmma

ON_THE_WAY = {"kernel": fused.KERNEL, "bn": 64, "stages": 2, "producers": 128, "group": 2, "splits": 1, "spans": 0}
STREAMED = {"kernel": fused.STREAM_K, "bn": 64, "stages": 3, "producers": 256, "group": 2}
BEFOREHAND = {"kernel": wgmma.KERNEL, "bn": 64, "stages": 2, "cluster": 2, "group": 2, "blocks": 1}

SHORT = {"kernel": short.KERNEL, "bn": 64, "stages": 3}


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


# The forward, its inputs, and the plan's knobs.
CASES: Cases = {
    "on the way, odd": ((product, (rand(205, 77), rand(77, 149))), ON_THE_WAY),
    "on the way, both transposed": ((lambda a, b: a.T @ b.T, (rand(68, 132), rand(196, 68))),
                                    ON_THE_WAY | {"bn": 128, "producers": 256}),
    "on the way, K shared": ((lambda a, b: F.relu(torch.bmm(a, b)), (rand(2, 130, 131), rand(2, 131, 67))),
                             ON_THE_WAY | {"splits": 3}),
    "upper, even shares": ((lambda a, b: torch.triu(a @ b), (rand(390, 390).triu(), rand(390, 390).triu())),
                           ON_THE_WAY | {"spans": 1, "even": 1}),
    "lower, batches, even shares": (
        (lambda a, b: torch.tril(torch.bmm(a, b), -3), (rand(2, 260, 200).tril(), rand(2, 200, 140).tril())),
        ON_THE_WAY | {"spans": 1, "even": 1}),
    "stream k": ((product, (rand(260, 300), rand(300, 150))), STREAMED),
    "beforehand, odd": ((product, (rand(300, 77), rand(77, 149))), BEFOREHAND),
    "beforehand, transposed, no cluster": ((lambda a, b: a.T @ b.T, (rand(100, 132), rand(196, 100))),
                                           BEFOREHAND | {"cluster": 1, "bn": 128}),
    "short k, edges": ((product, (rand(300, 45), rand(45, 332))), SHORT),
    "short k, batches and steps": (
        (lambda a, b, c: F.relu(torch.bmm(a, b) + c), (rand(3, 140, 32), rand(3, 32, 260), rand(3, 140, 260))),
        SHORT | {"bn": 128, "stages": 2}),
    "beforehand, two blocks": ((torch.bmm, (rand(3, 140, 36), rand(3, 36, 70))),
                               BEFOREHAND | {"stages": 1, "blocks": 2}),
}  # fmt: skip


BROKEN: Broken = {
    "a stage is filled before it is left": (
        "  Barrier::wait(&shared.empty[stage.index], stage.phase ^ 1);\n", "", "on the way, odd"),
    "a stage is read before it is filled": (
        "      Barrier::wait(&shared.full[stage.index], stage.phase);\n", "", "on the way, odd"),
    "small parts are left out": ("product < 3", "product < 1", "on the way, both transposed"),
    "a diagonal is taken twice": ("    index -= count;\n", "    index -= count - 1;\n", "upper, even shares"),
    "the blocks' order is not turned": (
        "gridDim.x - 1 - blockIdx.x : blockIdx.x", "gridDim.x - 2 - blockIdx.x : blockIdx.x", "upper, even shares"),
    "a block copies its part of B to itself": (
        "uint16_t((1 << Cluster) - 1)", "uint16_t(1 << blockIdx.x % Cluster)", "beforehand, odd"),
    "panels are not swizzled": ("chunk = at / 4 ^ r % 8;", "chunk = at / 4;", "short k, edges"),
    "A's rows change while they are multiplied": (
        "Empty::wait(&shared.empty[each.index], each.phase ^ 1);", ";", "short k, edges"),
    "a strip begins with the rows of the one before": (
        "Full::wait(&shared.rows, (index / TilesN - first / TilesN) & 1);", ";", "short k, edges"),
    "the second warpgroup begins with the first's stages": (
        "  if (warpgroup == 1) stage.next(TilesK);\n", "", "short k, edges"),
    "a stage of split tiles is filled before it is left": (
        "    Empty::wait(&shared.empty[stage], phase);\n", "", "beforehand, odd"),
}  # fmt: skip


@pytest.fixture(scope="module")
def emulated() -> Emulated:
    """All cases."""
    return Emulated.of(CASES, BROKEN)


@pytest.mark.parametrize("name", CASES)
def test_emulated_products_are_as_right_as_torch(
    name: str, golden: Golden, compiler: Compiler, emulated: Emulated
) -> None:
    emulated.prove(name, golden, compiler)


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_never_passes(name: str, golden: Golden, compiler: Compiler, emulated: Emulated) -> None:
    emulated.refute(name, golden, compiler)
