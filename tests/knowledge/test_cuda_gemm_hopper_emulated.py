"""Products by tensor copies and wgmma where no GPU is: every tile once, the right places, no stage too early."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from emulated_products import Broken, Cases, Emulated
from gemm_cases import rand
from goldens import Golden
from traced import Compiler

from knowledge.compiler.schedule.gemm import cuda_decode as decode
from knowledge.compiler.schedule.gemm import cuda_hopper as hopper

B16, H16 = torch.bfloat16, torch.float16
SHARED = {
    "kernel": hopper.KERNEL,
    "bm": 128,
    "bn": 64,
    "pingpong": 0,
    "stages": 3,
    "panels": 1,
    "cluster": 2,
    "group": 2,
}
IN_TURN = {**SHARED, "pingpong": 1, "bm": 64, "stages": 4, "panels": 2, "cluster": 1}
WEIGHTS = {"kernel": decode.KERNEL, "bn": 16, "stages": 3, "cluster": 2}


def right_transposed(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b.mT


# The forward, its inputs, and the plan's knobs.
CASES: Cases = {
    "shared, one cluster's edge": ((right_transposed, (rand(300, 136, dtype=B16), rand(200, 136, dtype=B16))), SHARED),
    "shared, both across K": ((lambda a, b: a.T @ b, (rand(77, 136, dtype=H16), rand(77, 72, dtype=H16))), SHARED),
    "shared, odd columns, stored directly": (
        (right_transposed, (rand(130, 72, dtype=H16), rand(75, 72, dtype=H16))),
        SHARED | {"cluster": 1},
    ),
    "shared, two atoms of rows, clusters of 4": (
        (lambda a, b: a @ b, (rand(260, 72, dtype=B16), rand(72, 136, dtype=B16))),
        SHARED | {"bm": 256, "bn": 128, "stages": 2, "cluster": 4},
    ),
    "in turn, batches": ((torch.bmm, (rand(3, 72, 136, dtype=B16), rand(3, 136, 72, dtype=B16))), IN_TURN),
    "in turn, fewer k's than stages": (
        (right_transposed, (rand(330, 40, dtype=H16), rand(192, 40, dtype=H16))),
        IN_TURN | {"bm": 128, "bn": 192, "cluster": 2, "group": 1},
    ),
    "in turn, steps": (
        (lambda x, w, b, r: F.gelu(F.linear(x, w, b)) + r,
         (rand(140, 328, dtype=B16), rand(136, 328, dtype=B16), rand(136, dtype=B16), rand(140, 136, dtype=B16))),
        IN_TURN,
    ),
    "K shared, odd": ((right_transposed, (rand(140, 328, dtype=B16), rand(75, 328, dtype=B16))),
                      SHARED | {"cluster": 1, "splits": 3}),
    "K shared by clusters, steps": (
        (lambda a, b: F.relu(torch.bmm(a, b)), (rand(2, 260, 200, dtype=H16), rand(2, 200, 72, dtype=H16))),
        SHARED | {"splits": 4}),
    "a pair": (
        (lambda x, g, u: F.silu(x @ g) * (x @ u),
         (rand(140, 200, dtype=B16), rand(200, 136, dtype=B16), rand(200, 136, dtype=B16).flip(1))),
        SHARED | {"bn": 128}),
    "a pair in turn, biases": (
        (lambda x, g, b, u, c: F.linear(x, u, c) * F.gelu(F.linear(x, g, b)),
         (rand(200, 136, dtype=H16), rand(75, 136, dtype=H16), rand(75, dtype=H16), rand(75, 136, dtype=H16).flip(1),
          rand(75, dtype=H16).flip(0))),
        IN_TURN | {"bn": 128, "cluster": 2}),
    "few rows": ((right_transposed, (rand(13, 328, dtype=B16), rand(135, 328, dtype=B16))), WEIGHTS),
    "few rows, weights across K": (
        (lambda a, b: F.silu(a @ b), (rand(5, 200, dtype=H16), rand(200, 136, dtype=H16))),
        WEIGHTS | {"bn": 8, "cluster": 4},
    ),
    "few tiles": ((right_transposed, (rand(140, 328, dtype=B16), rand(75, 328, dtype=B16))),
                  WEIGHTS | {"bn": 128, "cluster": 4}),
    "few tiles across K, steps": (
        (lambda a, b, c: F.gelu(a.T @ b) + c,
         (rand(328, 72, dtype=H16), rand(328, 136, dtype=H16), rand(72, 136, dtype=H16))),
        WEIGHTS | {"bn": 64, "cluster": 8}),
    "a vector": ((lambda a, b: a @ b, (rand(200, 328, dtype=B16), rand(328, dtype=B16))), WEIGHTS | {"cluster": 1}),
}  # fmt: skip


BROKEN: Broken = {
    "a stage is left before its products have ended": (
        "      warpgroup_wait<1>();\n", "", "in turn, steps"),
    "a panel is written while it is stored": (
        "if (thread == 0) tma_store_wait<Panels - 1>();", "", "shared, one cluster's edge"),
    "panels are not swizzled": ("^ (row % 8)", "", "shared, one cluster's edge"),
    "the second warpgroup begins with the first's stages": (
        "if (PingPong && warpgroup == 1) stage.next(TilesK);", "", "in turn, batches"),
    "a share of K is left out": ("for (int split = 0; split <", "for (int split = 1; split <", "K shared, odd"),
    "both products have one operand": ("copy_tile<PartB, Cluster>(mapU", "copy_tile<PartB, Cluster>(mapB", "a pair"),
    "one block of a cluster adds no sums": ("for (int other = 0;", "for (int other = 1;", "few rows"),
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
