"""Products on the SIMT cores (exemplar gemm_simt): what a GPU without tensor cores has, and the others start from.

Knobs: `kernel` (the exemplar), `bm`, `bn`, `bk` (a block's tile).
"""

from __future__ import annotations

from math import ceil

from knowledge.compiler.emit.source_text import constants
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.gemm.form import Form

KERNEL = "gemm_simt"
_THREADS = 256


def first_plan(form: Form, device: Device) -> Plan:
    """Tiles of 128 x 128; a side is halved where it does not fill, both where tiles are fewer than multiprocessors."""
    tiles = ceil(form.m.extent / 128) * ceil(form.n.extent / 128) * form.batches
    few = tiles < device.multiprocessors
    bm, bn = (64 if few or axis.extent <= 64 else 128 for axis in (form.m, form.n))
    return Plan("gemm", {"kernel": KERNEL, "bm": bm, "bn": bn, "bk": 8})


def knobs_text(problem: Problem, form: Form, plan: Plan) -> str:
    """The section `knobs`."""
    extents = {"BLK_M": "bm", "BLK_N": "bn", "BLK_K": "bk"}
    return constants({name: plan.knobs[knob] for name, knob in extents.items()}, {})


def describe(problem: Problem, form: Form, plan: Plan) -> tuple[str, ...]:
    """The header's lines on tile, registers and shared memory."""
    bm, bn, bk = (int(plan.knobs[name]) for name in ("bm", "bn", "bk"))
    shared = ", ".join(
        f"{name} {rows + 4} x {bk} x 1 x 4 = {(rows + 4) * bk * 4} bytes" for name, rows in (("A", bm), ("B", bn))
    )
    return (
        f"tile: block {bm} x {bn} x {bk}, {_THREADS} threads, {bm // 16} x {bn // 16} of C each, float32 cores",
        f"  shared memory: {shared}",
    )
