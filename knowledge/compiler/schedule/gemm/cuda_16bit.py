"""Products of float16 or bfloat16 operands on tensor cores, summed in float32 (exemplar gemm_16bit).

Knobs: `bm`, `bn` (a block's tile, 64 k's deep), `wm`, `wn` (warps along its rows and columns), `stages` (tiles in
shared memory), `blocks` (that a multiprocessor holds), `group` (tile rows side by side), `vectors` (0: every element is
copied alone).
"""

from __future__ import annotations

from knowledge.compiler.emit.source_text import constants
from knowledge.compiler.plan import Move, Plan
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.gemm.cuda_shares import raster_orders
from knowledge.compiler.schedule.gemm.cuda_text import width
from knowledge.compiler.schedule.gemm.form import A, B, C, Form

KERNEL = "gemm_16bit"
# Elements of one copy, the most first: 16 bytes, and the 4 that an asynchronous copy moves at least.
WIDTHS = (8, 2)
_BK = 64


def first_plan() -> Plan:
    """Tensor cores from the start, which is where these types have their speed; copies element by element."""
    tile = {"bm": 128, "bn": 128, "wm": 2, "wn": 4}
    return Plan("gemm", {"kernel": KERNEL, **tile, "stages": 2, "blocks": 2, "group": 8, "vectors": 0})


def moves(form: Form, device: Device, plan: Plan) -> tuple[Move, ...]:
    """What is not yet in the plan, the most promising first."""
    found = []
    if not plan.knobs["vectors"] and max(_copies(form, plan.with_knobs(vectors=1)).values()) > 1:
        why = "Copy 16 bytes at once, asynchronously and two tiles ahead, wherever strides and extents allow it."
        after = plan.with_knobs(vectors=1, stages=3)
        found.append(Move("vector access, 3 stages", why, after, ("coalescing", "latency", "on_chip")))
    for knobs, name, why, against in _TILES:
        after = plan.with_knobs(**knobs)
        if after != plan and _shared_bytes(after) <= (device.shared_bytes or 99 << 10):
            found.append(Move(name, why, after, against))
    return (*found, *(raster_orders(plan, (16, 4)) if form.m.extent > int(plan.knobs["bm"]) else ()))


# At 4096 x 4096 x 4096 an H200 takes 0.375 ms for the plan these start from, 0.338 with the first, 0.381 the second.
_TILES: tuple[tuple[dict[str, int], str, str, tuple[str, ...]], ...] = (
    (
        {"bm": 128, "bn": 128, "wm": 2, "wn": 2, "stages": 3, "blocks": 2},
        "tile 128x128, warp 64x64",
        "Half the warps, each with a tile twice as large: fewer reads of shared memory for as many products.",
        ("on_chip", "compute"),
    ),
    (
        {"bm": 256, "bn": 128, "wm": 4, "wn": 2, "stages": 3, "blocks": 1},
        "tile 256x128, warp 64x64",
        "Larger tiles of blocks and warps: each element that is copied and read is multiplied more often.",
        ("on_chip", "memory"),
    ),
    (
        {"stages": 4, "blocks": 1},
        "4 stages",
        "A tile more in flight, at the price of the second block.",
        ("latency",),
    ),
    (
        {"bm": 64, "bn": 128, "wm": 2, "wn": 2, "stages": 3, "blocks": 3},
        "tile 64x128, warp 32x64",
        "Smaller tiles, more of them: where there are few, more multiprocessors work.",
        ("occupancy", "latency"),
    ),
)


def _shared_bytes(plan: Plan) -> int:
    rows = int(plan.knobs["bm"]) + int(plan.knobs["bn"])
    return rows * _BK * 2 * int(plan.knobs["stages"])


def _copies(form: Form, plan: Plan) -> dict[str, int]:
    """Elements that a copy of A, one of B and a store of C move."""
    if not plan.knobs["vectors"]:
        return {"CopyA": 1, "CopyB": 1, "StoreC": 1}
    copy_a, copy_b, store = (width(form, place, WIDTHS) for place in (A, B, C))
    return {"CopyA": copy_a, "CopyB": copy_b, "StoreC": min(2, store)}


def knobs_text(problem: Problem, form: Form, plan: Plan) -> str:
    """The section `knobs`."""
    knobs = plan.knobs
    extents = {"BLK_M": knobs["bm"], "BLK_N": knobs["bn"], "BLK_K": _BK, "WarpsM": knobs["wm"], "WarpsN": knobs["wn"]}
    values = {"Stages": knobs["stages"], "MinBlocks": knobs["blocks"], "Group": knobs["group"], **_copies(form, plan)}
    return constants(extents, values)


def describe(problem: Problem, form: Form, plan: Plan) -> tuple[str, ...]:
    """The header's lines on tile and shared memory."""
    bm, bn, wm, wn, stages = (int(plan.knobs[name]) for name in ("bm", "bn", "wm", "wn", "stages"))
    return (
        f"tile: block {bm} x {bn} x {_BK}, {wm * wn} warps of {bm // wm} x {bn // wn}, MMA 16 x 8 x 16, float32 sums",
        f"  shared memory: A {bm} x {_BK} x {stages} x 2 = {bm * _BK * stages * 2} bytes, "
        f"B {bn} x {_BK} x {stages} x 2 = {bn * _BK * stages * 2} bytes",
    )
