"""Products of float16 or bfloat16 operands with few tiles and a long K, on Hopper (exemplar gemm_decode_16bit).

Where one operand has few rows it is the kernel's B, the long one its A; else A has the rows along which C lies in
memory. The blocks of a cluster share a tile's K and add in shared memory: no second kernel, no scratch. Knobs: `bn`
(columns of a tile of 64 rows), `stages` (tiles in shared memory), `cluster` (blocks that share a tile's K).
"""

from __future__ import annotations

from math import ceil

from knowledge.compiler.emit.source_text import constants
from knowledge.compiler.plan import Move, Plan
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.gemm.cuda_hopper import BK, SHARED_BYTES, step_cycles, suits
from knowledge.compiler.schedule.gemm.cuda_text import contiguous
from knowledge.compiler.schedule.gemm.form import B, C, Form, swapped

KERNEL = "gemm_decode_16bit"
FEW = 64
"""Rows up to which reading the other operand is most of the time."""
_BM = 64
# Bytes that a block has on their way: enough of them for a multiprocessor's share of the bandwidth.
_IN_FLIGHT = 96 << 10
# The same where a block has its multiprocessor for itself.
_IN_FLIGHT_ALONE = 160 << 10
# Cycles before the first product and after the last one, for a cluster to wait for its blocks, and for an element that
# a thread of 160 adds from all of them: counted, not fitted.
_BEGINNING, _JOINED, _ADDED, _THREADS = 6000, 1500, 250, 160


def pays(problem: Problem, form: Form) -> bool:
    """Whether one operand has few rows and the other many, and tensor copies can read both."""
    few, many = sorted((form.m.extent, form.n.extent))
    return few <= FEW and many >= 4 * few and form.second is None and suits(problem, form)


def turned(form: Form) -> Form:
    """The product with the long operand first; where none is short, so that C's rows are neighbours in memory."""
    if min(form.m.extent, form.n.extent) <= FEW:
        return form if form.m.extent >= form.n.extent else swapped(form)
    return form if form.m.strides[C] == 1 else swapped(form)


def few_tiles(problem: Problem, form: Form) -> Plan | None:
    """The cheapest tile and cluster for a product that leaves multiprocessors idle without sharing K."""
    if form.second is not None or not suits(problem, form):
        return None
    form, plans = turned(form), []
    for bn in (64, 128):
        for cluster in (2, 4, 8):
            at_once = _tile_count(form, bn) * cluster <= _slots(problem.device, cluster)
            if at_once and ceil(form.k.extent / BK) >= 4 * cluster:
                plan = Plan("gemm", {"kernel": KERNEL, "bn": bn, "stages": 1, "cluster": cluster})
                plans.append(plan.with_knobs(stages=_stages(plan, _IN_FLIGHT_ALONE)))
    return min(plans, key=lambda plan: cycles(form, plan), default=None)


def _slots(device: Device, cluster: int) -> int:
    """Multiprocessors that clusters fill at once, by a block each: groups of them are no multiples of a large one.

    512 x 512 x 4096 in 128 blocks takes an H200 0.0134 ms by clusters of 2 and 0.0186 by clusters of 4.
    """
    return device.multiprocessors if cluster <= 2 else device.multiprocessors // 2


def cycles(form: Form, plan: Plan) -> float:
    """The clock cycles that the model of `cuda_hopper` expects of tiles that all run at once, their adding too."""
    bn, cluster = int(plan.knobs["bn"]), int(plan.knobs["cluster"])
    added = ceil(_BM * bn / cluster / _THREADS) * _ADDED + _JOINED
    return _BEGINNING + ceil(form.k.extent / BK / cluster) * step_cycles(_BM, bn, 1) + added


def first_plan(problem: Problem, form: Form) -> Plan:
    """As many blocks as make every multiprocessor busy, and as many stages as its bandwidth needs."""
    form = turned(form)
    plan = Plan(
        "gemm", {"kernel": KERNEL, "bn": _columns(form), "stages": 1, "cluster": _cluster(problem.device, form)}
    )
    return plan.with_knobs(stages=_stages(plan, _IN_FLIGHT))


def _columns(form: Form) -> int:
    if contiguous(form, B) is not form.k:
        return 64
    return next(bn for bn in (8, 16, 32, 64) if bn >= form.n.extent)


def _tile_count(form: Form, bn: int) -> int:
    return ceil(form.m.extent / _BM) * ceil(form.n.extent / bn) * form.batches


def _cluster(device: Device, form: Form) -> int:
    """The most blocks that leave each some tiles of K and are no more than the multiprocessors."""
    tiles, depth = _tile_count(form, _columns(form)), ceil(form.k.extent / BK)
    fitting = [1, *(each for each in (2, 4, 8) if tiles * each <= device.multiprocessors and depth >= 4 * each)]
    return fitting[-1]


def _stages(plan: Plan, count: int) -> int:
    return max(2, count // ((_BM + int(plan.knobs["bn"])) * BK * 2))


def moves(form: Form, plan: Plan) -> tuple[Move, ...]:
    """More and fewer blocks that share a tile's K, more and fewer bytes in flight."""
    form, found = turned(form), []
    for cluster in (1, 2, 4, 8):
        if cluster != plan.knobs["cluster"] and ceil(form.k.extent / BK) >= cluster:
            why = "Another number of blocks that share K: more read at once, or fewer wait for each other."
            after = plan.with_knobs(cluster=cluster)
            found.append(Move(f"K shared by {cluster} blocks", why, after, ("memory", "occupancy", "latency")))
    for count in (SHARED_BYTES - (24 << 10), SHARED_BYTES // 2 - (16 << 10), 64 << 10):
        after = plan.with_knobs(stages=_stages(plan, count))
        if after != plan:
            why = "Another balance of a block's copies in flight and of blocks on a multiprocessor."
            found.append(Move(f"{after.knobs['stages']} stages", why, after, ("memory", "latency")))
    return tuple(found)


def knobs_text(problem: Problem, form: Form, plan: Plan) -> str:
    """The section `knobs`."""
    knobs = plan.knobs
    return constants({"BLK_N": knobs["bn"]}, {"Stages": knobs["stages"], "Cluster": knobs["cluster"]})


def describe(problem: Problem, form: Form, plan: Plan) -> tuple[str, ...]:
    """The header's lines on tile and shared memory."""
    bn, stages = int(plan.knobs["bn"]), int(plan.knobs["stages"])
    return (
        f"tile: block {_BM} x {bn} x {BK}, one warpgroup, clusters of {plan.knobs['cluster']} along K, float32 sums",
        f"  shared memory: A {_BM} x {BK} x {stages} x 2 = {_BM * BK * stages * 2} bytes, "
        f"B {bn} x {BK} x {stages} x 2 = {bn * BK * stages * 2} bytes, sums {_BM * bn * 4} bytes",
    )
