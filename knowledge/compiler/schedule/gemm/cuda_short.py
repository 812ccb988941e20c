"""Products of short K at float32 grade on Hopper, where storing C takes longest (exemplar gemm_wgmma_short_k).

Knobs: `bn` (columns of a block's tile of 128 rows), `stages` (tiles of B, 32 k's deep, in shared memory).
"""

from __future__ import annotations

from math import ceil

from knowledge.compiler.emit.source_text import constants
from knowledge.compiler.plan import Move, Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.gemm import cuda_wgmma as wgmma
from knowledge.compiler.schedule.gemm.cuda_text import contiguous, width
from knowledge.compiler.schedule.gemm.form import A, B, C, Form

KERNEL = "gemm_wgmma_short_k"
_BM, _BK = 128, 32
_LONGEST_K = 2 * _BK
_PANELS = 4 * 64 * 32 * 4
"""Bytes of shared memory that C passes through: two warpgroups have two pieces of 64 x 32 each."""


def suits(problem: Problem, form: Form) -> bool:
    """Whether K is short, tiles keep the device busy, and tensor copies can write C: rows at multiples of 16 bytes."""
    aligned = contiguous(form, C) is form.n and width(form, C) == 4 and len(form.batch) <= 1
    return wgmma.suits(problem, form) and form.k.extent <= _LONGEST_K and aligned


def first_plan() -> Plan:
    """The largest tile, and as many stages as fit beside A's rows."""
    return Plan("gemm", {"kernel": KERNEL, "bn": 128, "stages": 4})


def moves(plan: Plan) -> tuple[Move, ...]:
    """The other width of a tile."""
    if plan.knobs["bn"] == 64:
        why = "Wider tiles: A's rows are read from shared memory half as often for an element of C."
        return (Move("tile 128x128", why, plan.with_knobs(bn=128, stages=4), ("on_chip", "compute")),)
    why = "Narrower tiles: shorter turns of the two warpgroups, and more tiles of B on their way."
    return (Move("tile 128x64", why, plan.with_knobs(bn=64, stages=8), ("latency",)),)


def knobs_text(problem: Problem, form: Form, plan: Plan) -> str:
    """The section `knobs`."""
    values = {
        "Stages": plan.knobs["stages"], "Blocks": problem.device.multiprocessors or 132,
        "CopyA": _copy(form, A), "CopyB": _copy(form, B),
    }  # fmt: skip
    return constants({"BLK_N": plan.knobs["bn"]}, values)


def _copy(form: Form, place: int) -> int:
    """Elements one load takes: along K only, since that is how a thread splits them."""
    return width(form, place) if contiguous(form, place) is form.k else 1


def describe(problem: Problem, form: Form, plan: Plan) -> tuple[str, ...]:
    """The header's lines on tile, shared memory and scratch."""
    bn, stages = (int(plan.knobs[name]) for name in ("bn", "stages"))
    deep = ceil(form.k.extent / _BK)
    rows = ceil(form.m.extent / _BM) * _BM + ceil(form.n.extent / bn) * bn
    return (
        f"tile: block {_BM} x {bn} x {deep * _BK}, by one of 2 warpgroups in turn (TF32 wgmma)",
        f"  shared memory: A {_BM} x {deep * _BK} x 2 x 4 = {_BM * deep * _BK * 8} bytes, "
        f"B {bn} x {_BK} x 2 x {stages} x 4 = {bn * _BK * 8 * stages} bytes, C {_PANELS} bytes",
        f"  scratch: A and B as two TF32 parts each, {8 * rows * deep * _BK * form.batches} bytes of device memory",
    )
