"""Products at float32 grade by Hopper's wgmma, the operands split on their way (exemplars gemm_wgmma_fused, _stream_k).

Neither needs scratch for split operands. Blocks stay and take one tile after the other; by stream-K the tiles of the
last waves are cut into equal shares instead. Knobs: `bn` (columns of a block's tile of 128 rows and 32 k's), `stages`
(tiles in shared memory), `producers` (threads that read and split), `group` (tile rows side by side); without stream-K
`splits` (blocks that share a tile's K), `spans` (1: ranges of K that hold only zeros are found and skipped) and `even`
(1: a triangle's tiles go from long sums to short ones, back and forth over the blocks).
"""

from __future__ import annotations

from math import ceil

from knowledge.compiler.emit.source_text import constants
from knowledge.compiler.plan import Move, Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.gemm import cuda_shares as sharing
from knowledge.compiler.schedule.gemm.cuda_shares import raster_orders
from knowledge.compiler.schedule.gemm.cuda_text import contiguous, width
from knowledge.compiler.schedule.gemm.form import A, B, C, Form

KERNEL = "gemm_wgmma_fused"
STREAM_K = "gemm_wgmma_stream_k"
_BM, _BK = 128, 32
# Tiles of K that a block must have by stream-K, so that filling its pipeline does not cost more than sharing gains.
_FEWEST_TILES = 16
# Clock cycles of a tile of 128 columns and 32 k's in three products: 1.31 ms at 4096 x 4096 x 4096 on an H200.
_STEP = 2300
# Cycles of a tile's beginning and end: 2.36 ms at 32768 x 64 x 32768, 1.77 at 32768 x 32 x 32768.
_TILE = 3900
# Share of the multiprocessors' time that a last wave leaves idle, from which on stream-K is worth its partial sums: an
# H200 gains 28 % of the time at 36 % idle, 5 % at 26 %, and loses 15 % at 8 %.
_IDLE = 0.15
# K up to which filling and emptying the pipeline is most of the time.
_SHORT_K = 2 * _BK


def suits(problem: Problem) -> bool:
    """Whether the device is Hopper, and float32's accuracy is asked for."""
    return problem.device.has.wgmma and problem.precision != "tf32"


def first_plan(problem: Problem, form: Form) -> Plan:
    """K shared among as many blocks as there are multiprocessors to spare; triangles without their empty ranges."""
    spans = int(form.triangle is not None)
    knobs: dict[str, int | str] = {"kernel": KERNEL, "bn": 128, "stages": 3, "producers": 256, "group": 8}
    plan = Plan("gemm", {**knobs, "splits": 1, "spans": spans})
    return plan if spans else _sharing_k(problem, form, plan)


def _sharing_k(problem: Problem, form: Form, plan: Plan) -> Plan:
    most = min(problem.device.multiprocessors // _tile_count(form, plan), ceil(form.k.extent / _BK))
    return sharing.cheapest(plan, most, lambda each: cycles(form, each))


def cycles(form: Form, plan: Plan) -> float:
    """The clock cycles that a product of few tiles should take."""
    step = _STEP * int(plan.knobs["bn"]) / 128
    return sharing.cycles(form, ceil(form.k.extent / _BK), step, int(plan.knobs["splits"]))


def tile_cycles(form: Form) -> int:
    """The clock cycles of one tile of 128 columns where there are many, one after the other."""
    return _TILE + ceil(form.k.extent / _BK) * _STEP


def _tile_count(form: Form, plan: Plan) -> int:
    return ceil(form.m.extent / _BM) * ceil(form.n.extent / int(plan.knobs["bn"])) * form.batches


def idle(problem: Problem, form: Form, plan: Plan) -> float:
    """The share of the multiprocessors' time that the last wave leaves idle."""
    works = _tile_count(form, plan) * int(plan.knobs.get("splits", 1))
    slots = max(1, problem.device.multiprocessors)
    return 1 - works / (ceil(works / slots) * slots)


def moves(problem: Problem, form: Form, plan: Plan) -> tuple[Move, ...]:
    """Each changes one thing: how the last wave is cut, the block's tile, the producers, the order of the tiles."""
    orders, producers = _orders(form, plan), _producers(plan)
    # At K = 2048 an H200 gains 2 % by another order and loses 15 % with half the producers; at K = 32 it gains 4 %.
    usual = (*producers, *orders) if form.k.extent <= _SHORT_K else (*orders, *producers)
    return (
        *_even(form, plan),
        *_shared(form, plan),
        *_stream_k(problem, form, plan),
        *usual,
        *_tiles(problem, form, plan),
    )


def _even(form: Form, plan: Plan) -> tuple[Move, ...]:
    """A triangle's tiles shared out by their sums' lengths.

    At 4096 x 4096 x 4096 on 132 multiprocessors the block with most to do has 320 tiles of K column by column, by
    lengths 212; 181 are its even share.
    """
    if not (form.triangle and plan.knobs.get("spans")) or plan.knobs.get("even"):
        return ()
    why = "Tiles with long sums first, handed out back and forth: every multiprocessor gets as many tiles of K."
    return (Move("even shares", why, plan.with_knobs(even=1), ("occupancy", "compute")),)


def _shared(form: Form, plan: Plan) -> tuple[Move, ...]:
    """Other numbers of blocks that share K, once."""
    splits = int(plan.knobs.get("splits", 1))
    if splits == 1 or plan.knobs.get("swept"):
        return ()
    why = "More blocks share each tile's K, or fewer partial sums are added."
    values = {"splits": sharing.tried(splits, ceil(form.k.extent / _BK))}
    return (Move("shares of K", why, plan.with_knobs(swept=1), ("occupancy", "latency"), values),)


def _stream_k(problem: Problem, form: Form, plan: Plan) -> tuple[Move, ...]:
    if plan.knobs["kernel"] == STREAM_K or form.triangle or idle(problem, form, plan) < _IDLE:
        return ()
    if _tile_count(form, plan) * ceil(form.k.extent / _BK) < problem.device.multiprocessors * _FEWEST_TILES:
        return ()
    kept = {name: value for name, value in plan.knobs.items() if name not in ("kernel", "splits", "spans", "swept")}
    why = "The last wave of tiles leaves multiprocessors idle: cut it into equal shares of K, wherever a tile ends."
    return (Move("stream K", why, Plan("gemm", {"kernel": STREAM_K, **kept}), ("occupancy", "latency")),)


def _producers(plan: Plan) -> tuple[Move, ...]:
    if plan.knobs["producers"] == 256:
        why = (
            "One warpgroup reads and splits, with two tiles' loads in flight a thread, and leaves consumers registers."
        )
        return (Move("one producer warpgroup", why, plan.with_knobs(producers=128), ("latency", "spills")),)
    why = "Two warpgroups read and split, so that the consumers wait less for their next tile."
    return (Move("two producer warpgroups", why, plan.with_knobs(producers=256), ("on_chip", "memory")),)


def _tiles(problem: Problem, form: Form, plan: Plan) -> tuple[Move, ...]:
    """The other tile, with as many stages as fit."""
    if plan.knobs["bn"] == 64:
        after, against = plan.with_knobs(bn=128, stages=3), ("on_chip", "compute")
        why = "Wider tiles: each element of A that is read and split is used by twice as many columns."
    else:
        after, against = plan.with_knobs(bn=64, stages=4), ("occupancy", "latency")
        why = "Narrower tiles, more of them, and a stage more in flight."
    if int(plan.knobs.get("splits", 1)) > 1:
        after = _sharing_k(problem, form, after)
    return (Move(f"tile 128x{after.knobs['bn']}, {after.knobs['stages']} stages", why, after, against),)


def _orders(form: Form, plan: Plan) -> tuple[Move, ...]:
    if form.triangle or form.m.extent <= _BM or form.n.extent <= int(plan.knobs["bn"]):
        return ()
    return raster_orders(plan, (4, 16))


def knobs_text(problem: Problem, form: Form, plan: Plan) -> str:
    """The section `knobs`."""
    knobs, triangle = plan.knobs, form.triangle
    values = {
        "Stages": knobs["stages"], "Producers": knobs["producers"], "Blocks": _blocks(problem, form, plan),
        "Group": knobs["group"], "CopyA": _copy(form, A), "CopyB": _copy(form, B), "StoreC": min(2, width(form, C)),
    }  # fmt: skip
    flags: dict[str, object] = {}
    if knobs["kernel"] == KERNEL:
        half = 0 if triangle is None else 1 if triangle.half == "upper" else -1
        values |= {"Splits": knobs["splits"], "Triangle": half, "Offset": triangle.offset if triangle else 0}
        flags = {"Even": knobs.get("even", 0), "SkipZeros": knobs["spans"]}
    return constants({"BLK_N": knobs["bn"]}, values, flags)


def _blocks(problem: Problem, form: Form, plan: Plan) -> int:
    """One for each multiprocessor; by stream-K never more than there are tiles of K to share."""
    blocks = problem.device.multiprocessors or 132
    if plan.knobs["kernel"] == KERNEL:
        return blocks
    return min(blocks, _tile_count(form, plan) * ceil(form.k.extent / _BK))


def _copy(form: Form, place: int) -> int:
    """Elements one load takes: 4 along K where all are aligned; across K neighbouring threads read neighbours."""
    return 4 if contiguous(form, place) is form.k and width(form, place) == 4 else 1


def describe(problem: Problem, form: Form, plan: Plan) -> tuple[str, ...]:
    """The header's lines on tile and shared memory."""
    bn, stages, splits = (int(plan.knobs.get(name, 1)) for name in ("bn", "stages", "splits"))
    size_a, size_b = (rows * _BK * 2 * stages * 4 for rows in (_BM, bn))
    lines = [
        f"tile: block {_BM} x {bn} x {_BK}, 2 warpgroups of 64 x {bn} (TF32 wgmma), "
        f"{plan.knobs['producers']} threads that read and split",
        f"  shared memory: A {_BM} x {_BK} x 2 x {stages} x 4 = {size_a} bytes, "
        f"B {bn} x {_BK} x 2 x {stages} x 4 = {size_b} bytes",
    ]
    if plan.knobs["kernel"] == STREAM_K:
        blocks = _blocks(problem, form, plan)
        lines.append(f"  partial sums: 2 x {blocks} x {_BM} x {bn} x 4 = {8 * blocks * _BM * bn} bytes")
    elif splits > 1:
        partial = splits * form.batches * form.m.extent * form.n.extent * 4
        lines.append(f"  partial sums: {splits} x L x M x N x 4 = {partial} bytes of device memory")
    return tuple(lines)
