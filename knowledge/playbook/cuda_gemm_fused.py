"""Products at float32 grade by Hopper's wgmma, the operands split on their way (exemplar gemm_wgmma_fused).

Needs no scratch for split operands. Blocks stay and take one tile after the other. Knobs: `producers` (threads that
read and split), `splits` (blocks that share a tile's K), `group` (tile rows side by side), `spans` (1: ranges of K that
hold only zeros are found and skipped).
"""

from __future__ import annotations

from math import ceil

from knowledge.playbook.cuda_gemm_text import contiguous, width
from knowledge.playbook.gemm_form import A, B, C, Form
from knowledge.playbook.problem import Problem
from knowledge.playbook.recipe import Move, Plan

KERNEL = "gemm_wgmma_fused"
ARCHITECTURE = "sm_90a"
_BM, _BN, _BK, _STAGES = 128, 128, 32, 3
# Tiles of K that a block must have left, so that filling its pipeline does not cost more than sharing gains.
_FEWEST_TILES = 16


def suits(problem: Problem) -> bool:
    """Whether the device is Hopper, and float32's accuracy is asked for."""
    return problem.device.architecture == ARCHITECTURE and problem.precision == "ieee"


def first_plan(problem: Problem, form: Form) -> Plan:
    """K shared among as many blocks as there are multiprocessors to spare; triangles without their empty ranges."""
    spans = int(form.triangle is not None)
    splits = 1 if spans else _shares(problem, form)
    return Plan("gemm", {"kernel": KERNEL, "producers": 256, "splits": splits, "group": 8, "spans": spans})


def _shares(problem: Problem, form: Form) -> int:
    tiles = ceil(form.m.extent / _BM) * ceil(form.n.extent / _BN) * form.batches
    if 2 * tiles > problem.device.multiprocessors:
        return 1
    return max(1, min(problem.device.multiprocessors // tiles, ceil(form.k.extent / _BK) // _FEWEST_TILES))


def moves(form: Form, plan: Plan) -> tuple[Move, ...]:
    """Fewer producers, and other orders of the tiles."""
    found = []
    if plan.knobs["producers"] == 256:
        why = (
            "One warpgroup reads and splits, with two tiles' loads in flight a thread, and leaves consumers registers."
        )
        found.append(Move("one producer warpgroup", why, plan.with_knobs(producers=128), ("latency",)))
    if form.triangle or form.m.extent <= _BM or form.n.extent <= _BN:
        return tuple(found)
    for group in (16, 4):
        if plan.knobs["group"] != group:
            why = f"Run {group} rows of tiles side by side, so that their operands are still in the L2 cache."
            found.append(Move(f"raster order {group}", why, plan.with_knobs(group=group), ("memory",)))
    return tuple(found)


def knobs_text(problem: Problem, form: Form, plan: Plan) -> str:
    """The section `knobs`."""
    knobs, triangle = plan.knobs, form.triangle
    half = 0 if triangle is None else 1 if triangle.half == "upper" else -1
    values = {
        "Stages": _STAGES, "Producers": knobs["producers"], "Blocks": problem.device.multiprocessors or 132,
        "Splits": knobs["splits"], "Group": knobs["group"], "CopyA": _copy(form, A), "CopyB": _copy(form, B),
        "StoreC": min(2, width(form, C)), "Triangle": half, "Offset": triangle.offset if triangle else 0,
    }  # fmt: skip
    return "\n".join(
        [
            f"using BLK_N = Int<{_BN}>;",
            *(f"constexpr int {name} = {value};" for name, value in values.items()),
            f"constexpr bool SkipZeros = {'true' if knobs['spans'] else 'false'};",
        ]
    )


def _copy(form: Form, place: int) -> int:
    """Elements one load takes: 4 along K where all are aligned; across K neighbouring threads read neighbours."""
    return 4 if contiguous(form, place) is form.k and width(form, place) == 4 else 1


def describe(form: Form, plan: Plan) -> tuple[str, ...]:
    """The header's lines on tile and shared memory."""
    size = _BM * _BK * 2 * _STAGES * 4
    lines = [
        f"tile: block {_BM} x {_BN} x {_BK}, 2 warpgroups of 64 x {_BN} (TF32 wgmma), "
        f"{plan.knobs['producers']} threads that read and split",
        f"  shared memory: A {_BM} x {_BK} x 2 x {_STAGES} x 4 = {size} bytes, B as much",
    ]
    splits = int(plan.knobs["splits"])
    if splits > 1:
        partial = splits * form.batches * form.m.extent * form.n.extent * 4
        lines.append(f"  partial sums: {splits} x L x M x N x 4 = {partial} bytes of device memory")
    return tuple(lines)
