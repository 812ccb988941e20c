"""Products at float32 grade on Hopper's tensor cores (exemplar gemm_wgmma_3xtf32): when they pay, knobs, moves.

Knobs: `bn` (columns of a block's tile of 128 rows and 32 k's), `stages` (tiles in shared memory), `cluster` (blocks
that share each tile of B), `group` (rows of clusters side by side), `blocks` (that a multiprocessor holds).
"""

from __future__ import annotations

from math import ceil

from knowledge.compiler.emit.source_text import constants
from knowledge.compiler.plan import Move, Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.gemm import cuda_fused as fused
from knowledge.compiler.schedule.gemm.cuda_shares import raster_orders
from knowledge.compiler.schedule.gemm.cuda_text import contiguous, width
from knowledge.compiler.schedule.gemm.form import A, B, C, Form

KERNEL = "gemm_wgmma_3xtf32"
_BM, _BK = 128, 32
# Clock cycles of a block's beginning and end, which nothing hides, and of a tile of 128 columns and 32 k's; cycles of
# the whole device to split one element. Within 9 % of what an H200 took for seven products (ms; the model's): 4096 x
# 4096 x 4096 1.07 (1.06), 128 of 512 x 1024 x 2048 3.10 (3.17), 32768 x 32 x 32768 3.15 (3.28).
_BLOCK, _STEP, _SPLIT = 10_000, 1570, 0.0053

# Where K is short, most of a block's time is its beginning and its end, when another can multiply.
_SHORT_K = 2 * _BK


def suits(problem: Problem, form: Form) -> bool:
    """Whether the device is Hopper, float32's accuracy is asked for, and dense tiles keep half of it busy."""
    if not problem.device.has.wgmma or problem.precision == "tf32" or form.triangle:
        return False
    tiles = ceil(form.m.extent / _BM) * ceil(form.n.extent / 128) * form.batches
    return 2 * tiles >= problem.device.multiprocessors


def pays(problem: Problem, form: Form) -> bool:
    """Whether splitting in a kernel of its own should cost less than the faster products gain."""
    if not suits(problem, form):
        return False
    tiles = ceil(form.m.extent / _BM) * ceil(form.n.extent / 128) * form.batches
    waves, deep = ceil(tiles / max(1, problem.device.multiprocessors)), ceil(form.k.extent / _BK)
    split = (form.m.extent + form.n.extent) * form.k.extent * form.batches * _SPLIT
    return waves * (_BLOCK + deep * _STEP) + split < waves * fused.tile_cycles(form)


def first_plan() -> Plan:
    """The tile that is best where K is long and there are enough tiles."""
    return Plan("gemm", {"kernel": KERNEL, "bn": 128, "stages": 3, "cluster": 2, "group": 4, "blocks": 1})


def trial_plan(form: Form) -> Plan:
    """What is tried where the model expects no gain: with the beginnings and ends hidden, where K is short."""
    return next((move.plan for move in _blocks(form, first_plan())), first_plan())


def moves(form: Form, plan: Plan) -> tuple[Move, ...]:
    """Each changes one thing: blocks a multiprocessor, the tile, the order of the tiles, the cluster.

    At 16384 x 2048 x 768 an H200 gains 3 % by 192 columns, which 768 is a multiple of, and 1 to 2 % by other orders and
    single blocks; at 4096 x 4096 x 4096 it loses 10 % by 192 columns, 7 % by clusters of 4.
    """
    exact = form.n.extent % 192 == 0 and form.n.extent % 128 <= 64
    tiles, others = _tiles(form, plan), (*raster_orders(plan, (8, 2, 16, 4), "clusters"), *_clusters(plan))
    return (*_blocks(form, plan), *((*tiles, *others) if exact else (*others, *tiles)))


def _blocks(form: Form, plan: Plan) -> tuple[Move, ...]:
    if form.k.extent > _SHORT_K or plan.knobs["blocks"] == 2:
        return ()
    why = "K is short: a second block multiplies while the first begins or stores its tile."
    after = plan.with_knobs(stages=1, blocks=2, bn=128)
    return (Move("2 blocks a multiprocessor", why, after, ("latency", "occupancy", "memory")),)


def _clusters(plan: Plan) -> tuple[Move, ...]:
    """More blocks share each tile of B: less traffic from the L2 cache, and more that wait for each other."""
    found = []
    for cluster in (1, 2, 4):
        if plan.knobs["cluster"] != cluster:
            larger = cluster > int(plan.knobs["cluster"])
            why = f"{cluster} blocks share each tile of B: " + (
                "less traffic between the L2 cache and shared memory." if larger else "fewer wait for each other."
            )
            against = ("on_chip", "memory") if larger else ("latency", "compute")
            found.append(Move(f"clusters of {cluster}", why, plan.with_knobs(cluster=cluster), against))
    return tuple(found)


def _tiles(form: Form, plan: Plan) -> tuple[Move, ...]:
    """The other widths of a tile, with as many stages as fit."""
    if plan.knobs["blocks"] == 2:
        return ()
    found = []
    for bn, stages, against in ((192, 2, ("on_chip",)), (128, 3, ("compute",)), (64, 4, ("occupancy", "latency"))):
        if plan.knobs["bn"] != bn and form.n.extent > bn // 2:
            why = f"Tiles of {bn} columns, {stages} of them in flight: another balance of reuse, latency and last wave."
            after = plan.with_knobs(bn=bn, stages=stages)
            found.append(Move(f"tile {_BM}x{bn}, {stages} stages", why, after, against))
    return tuple(found)


def knobs_text(problem: Problem, form: Form, plan: Plan) -> str:
    """The section `knobs`."""
    knobs = plan.knobs
    values = {
        "Stages": knobs["stages"], "Cluster": knobs["cluster"], "Group": knobs["group"], "Blocks": knobs["blocks"],
        "CopyA": _copy(form, A), "CopyB": _copy(form, B), "StoreC": min(2, width(form, C)),
    }  # fmt: skip
    return constants({"BLK_N": knobs["bn"]}, values)


def _copy(form: Form, place: int) -> int:
    """Elements one load takes: along K only, since that is how a thread splits them."""
    return width(form, place) if contiguous(form, place) is form.k else 1


def describe(problem: Problem, form: Form, plan: Plan) -> tuple[str, ...]:
    """The header's lines on tile, shared memory and scratch."""
    bn, stages, cluster = (int(plan.knobs[name]) for name in ("bn", "stages", "cluster"))
    rows = ceil(form.m.extent / (_BM * cluster)) * _BM * cluster + ceil(form.n.extent / bn) * bn
    scratch = 8 * rows * ceil(form.k.extent / _BK) * _BK * form.batches
    return (
        f"tile: block {_BM} x {bn} x {_BK}, 2 warpgroups of 64 x {bn} (TF32 wgmma), clusters of {cluster} in M",
        f"  shared memory: A {_BM} x {_BK} x 2 x {stages} x 4 = {_BM * _BK * 8 * stages} bytes, "
        f"B {bn} x {_BK} x 2 x {stages} x 4 = {bn * _BK * 8 * stages} bytes",
        f"  scratch: A and B as two TF32 parts each, {scratch} bytes of device memory",
    )
