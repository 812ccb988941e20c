"""Products of float16 or bfloat16 operands by Hopper's wgmma and tensor copies (exemplar gemm_wgmma_16bit).

Knobs: `bm`, `bn` (a tile, 64 k's deep; of a pair of products half of the columns are each one's), `pingpong` (1: the
two warpgroups take tiles in turn; 0: they share each), `stages` (tiles in shared memory), `cluster` (blocks that share
each tile of B), `group` (rows of clusters side by side), `panels` (pieces of C, 64 x 64, that a warpgroup has in shared
memory), `splits` (blocks that share a tile's K), `swept` (1: clusters and order, or the splits, were), `ranked` (1: so
were the model's best plans, which `rank` counts).
"""

from __future__ import annotations

from math import ceil

from knowledge.compiler.emit.source_text import constants, truth
from knowledge.compiler.plan import RANK, Move, Plan
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.gemm import cuda_shares as sharing
from knowledge.compiler.schedule.gemm.cuda_text import contiguous, width
from knowledge.compiler.schedule.gemm.form import NARROW, A, B, C, Form

KERNEL = "gemm_wgmma_16bit"
BK = 64
# Elements in the 16 bytes that a tensor copy's strides must be multiples of.
_UNIT = 8
_PANEL_BYTES = 64 * 64 * 2
# What the barriers and the alignment of shared memory take at most, in bytes.
_BARRIERS = 1 << 10
SHARED_BYTES = 227 << 10


def suits(problem: Problem, form: Form) -> bool:
    """Whether the device is Hopper, and tensor copies can read both operands."""
    narrow = problem.device.has.wgmma and form.dtype in NARROW
    return narrow and len(form.batch) <= 1 and copyable(form, A) and copyable(form, B)


def copyable(form: Form, place: int) -> bool:
    """Whether tensor copies can read or write an operand: one loop of stride 1, the others' multiples of 16 bytes."""
    along = contiguous(form, place)
    others = [axis for axis in (form.m, form.n, form.k, *form.batch) if axis is not along and axis.extent > 1]
    return along is not None and all(axis.strides[place] % _UNIT == 0 for axis in others)


def first_plan(problem: Problem, form: Form) -> Plan:
    """The best of `TILES` by the model."""
    return ranked(problem, form)[0]


TILES: tuple[dict[str, int], ...] = (
    {"bm": 128, "bn": 256, "pingpong": 0, "stages": 4, "panels": 2},
    {"bm": 256, "bn": 128, "pingpong": 0, "stages": 4, "panels": 2},
    {"bm": 128, "bn": 192, "pingpong": 0, "stages": 4, "panels": 2},
    {"bm": 128, "bn": 128, "pingpong": 1, "stages": 6, "panels": 2},
    {"bm": 128, "bn": 128, "pingpong": 0, "stages": 6, "panels": 2},
    {"bm": 64, "bn": 256, "pingpong": 1, "stages": 4, "panels": 2},
    {"bm": 64, "bn": 128, "pingpong": 1, "stages": 8, "panels": 2},
    {"bm": 64, "bn": 64, "pingpong": 1, "stages": 8, "panels": 2},
)


def ranked(problem: Problem, form: Form) -> list[Plan]:
    """All tiles, each with and without clusters, the fastest by the model first. Few tiles have their K shared."""
    plans = [
        Plan("gemm", {"kernel": KERNEL, **tile, "cluster": cluster, "group": 8, "swept": 0})
        for tile in TILES
        if form.second is None or tile["bn"] % 128 == 0
        for cluster in (2, 1)
        if cluster * tile["bm"] < form.m.extent + tile["bm"]
    ]
    shared = [_shared(problem.device, form, plan) for plan in plans]
    return sorted(shared, key=lambda plan: cycles(problem.device, form, plan))


def _shared(device: Device, form: Form, plan: Plan) -> Plan:
    """The plan with as many blocks to a tile as cost least; one where warpgroups take tiles in turn, or of a pair."""
    plan = plan.with_knobs(splits=1)
    if plan.knobs["pingpong"] or form.second:
        return plan
    slots = device.multiprocessors // int(plan.knobs["cluster"])
    most = min(slots // _tile_count(form, plan), ceil(form.k.extent / BK))
    return sharing.cheapest(plan, most, lambda each: cycles(device, form, each))


def _tile_count(form: Form, plan: Plan) -> int:
    """Tiles of whole clusters."""
    bm, bn, cluster = (int(plan.knobs[name]) for name in ("bm", "bn", "cluster"))
    columns = bn // 2 if form.second else bn
    return ceil(form.m.extent / (bm * cluster)) * ceil(form.n.extent / columns) * form.batches


# Of one multiprocessor: multiply-adds of 16-bit operands a cycle (the architecture's), the share that large tiles
# reach, and the bytes a cycle that shared memory and the L2 cache give, as they fit 16 products measured on an H200.
_PRODUCTS_A_CYCLE, _REACHED, _SHARED_BYTES_A_CYCLE, _L2_BYTES_A_CYCLE = 2048, 0.94, 143, 41
# Cycles before the first product and after the last one, of an element that is stored, and of one whose steps call a
# function such as exp, from the same products.
_BEGINNING, _STORE, _FUNCTION = 6000, 0.09, 0.25
_FUNCTIONS = ("exp", "erf", "tanh", "log")


def step_cycles(bm: int, bn: int, sharing: int) -> float:
    """The clock cycles of 64 k's of a tile, as slow as its slowest part; so many blocks share what is read of B."""
    products = bm * bn * BK / (_PRODUCTS_A_CYCLE * _REACHED)
    # Tensor cores read A's rows once and B for every 64 of them; before that both are written.
    shared = (bm + bn * bm / 64 + bm + bn) * BK * 2 / _SHARED_BYTES_A_CYCLE
    brought = (bm + bn / sharing) * BK * 2 / _L2_BYTES_A_CYCLE
    return max(products, shared, brought)


def cycles(device: Device, form: Form, plan: Plan) -> float:
    """The clock cycles that the model expects of a plan: waves of tiles, each step of K as slow as its slowest part."""
    knobs = plan.knobs
    bm, bn, cluster = int(knobs["bm"]), int(knobs["bn"]), int(knobs["cluster"])
    splits, step = int(knobs.get("splits", 1)), step_cycles(bm, bn, cluster)
    waves = ceil(_tile_count(form, plan) * splits / max(1, device.multiprocessors // cluster))
    if splits > 1:
        return _BEGINNING + waves * 2 * _STORE * bm * bn + sharing.cycles(form, ceil(form.k.extent / BK), step, splits)
    summed = ceil(form.k.extent / BK) * step
    called = any(name in code for code in form.codes for name in _FUNCTIONS)
    stored = bm * (bn // 2 if form.second else bn) * (_STORE + _FUNCTION * called)
    if not knobs["pingpong"]:
        return _BEGINNING + waves * (summed + stored)
    return _BEGINNING + waves * max(summed, stored) + min(summed, stored)


def moves(problem: Problem, form: Form, plan: Plan) -> tuple[Move, ...]:
    """A sweep over the plans that the model expects most of, then one over clusters and orders or over the splits.

    Where nothing is swept the plans are moves of their own.
    """
    plan = _settled(problem, form, plan)
    against = ("on_chip", "compute", "latency", "occupancy")
    best = _best(problem, form)
    sweep = () if plan.knobs.get("ranked") or len(best) < 2 else (
        Move("the model's best plans", _WHY, best[0].with_knobs(rank=0), against, {RANK: tuple(range(1, len(best)))}),
    )  # fmt: skip
    others = [each for each in best if any(each.knobs[name] != plan.knobs[name] for name in _TILE)]
    single = [Move(_name(each), _WHY, each, against, instead_of_sweep=True) for each in others]
    return (*sweep, *single[:3], *_orders(form, plan), *single[3:])


# Plans that one sweep builds side by side.
_MOST = 6


def _best(problem: Problem, form: Form) -> list[Plan]:
    return ranked(problem, form)[:_MOST]


def _settled(problem: Problem, form: Form, plan: Plan) -> Plan:
    """The plan without the knob that counts the model's best ones: with that one's own knobs."""
    if RANK not in plan.knobs:
        return plan
    return _best(problem, form)[int(plan.knobs[RANK])].with_knobs(ranked=1)


def _orders(form: Form, plan: Plan) -> tuple[Move, ...]:
    if plan.knobs["swept"]:
        return ()
    if int(plan.knobs.get("splits", 1)) > 1:
        why = "More blocks share each tile's K, or fewer partial sums are added."
        values = {"splits": sharing.tried(int(plan.knobs["splits"]), ceil(form.k.extent / BK))}
        return (Move("shares of K", why, plan.with_knobs(swept=1), ("occupancy", "latency"), values),)
    if form.m.extent <= int(plan.knobs["bm"]):
        return ()
    why = "Which tiles run side by side, and whether blocks share them: what the L2 cache and the network must bring."
    values = {"group": (4, 16), "cluster": (1, 2)}
    return (Move("clusters and raster order", why, plan.with_knobs(swept=1), ("memory", "on_chip"), values),)


_TILE = ("bm", "bn", "pingpong", "stages", "cluster")
_WHY = "Another balance of reuse, of time in flight, and of how full the last wave of tiles is."


def _name(plan: Plan) -> str:
    knobs = plan.knobs
    way = "in turn" if knobs["pingpong"] else "shared"
    return f"tile {knobs['bm']}x{knobs['bn']} {way}, {knobs['stages']} stages, clusters of {knobs['cluster']}"


def shared_bytes(plan: Plan) -> int:
    """What a block takes of shared memory, in bytes."""
    knobs = {name: value for name, value in plan.knobs.items() if isinstance(value, int)}
    return (knobs["bm"] + knobs["bn"]) * BK * 2 * knobs["stages"] + 2 * knobs["panels"] * _PANEL_BYTES + _BARRIERS


_CONSTANTS = {"bm": "BLK_M", "bn": "BLK_N", "stages": "Stages", "cluster": "Cluster", "group": "Group",
              "panels": "Panels", "splits": "Splits", "pingpong": "PingPong"}  # fmt: skip


def knobs_text(problem: Problem, form: Form, plan: Plan) -> str:
    """The section `knobs`; under the knob `rank` with a table of plans, from which one constant chooses."""
    values = {name: str(plan.knobs.get(name, 1)) for name in _CONSTANTS}
    values["pingpong"] = truth(plan.knobs["pingpong"])
    lines = []
    if RANK in plan.knobs:
        rows = [", ".join(str(each.knobs[name]) for name in _CONSTANTS) for each in _best(problem, form)]
        lines = [
            f"constexpr int Rank = {plan.knobs[RANK]};",
            f"// The plans by what a model expects of them: {', '.join(_CONSTANTS.values())}.",
            f"constexpr int Plans[{len(rows)}][{len(values)}] = {{",
            *(f"    {{{row}}}," for row in rows),
            "};",
        ]
        values = {name: f"Plans[Rank][{place}]" for place, name in enumerate(values)}
    written = {_CONSTANTS[name]: value for name, value in values.items()}
    tiles = {name: written.pop(name) for name in ("BLK_M", "BLK_N")}
    flags = {"PingPong": written.pop("PingPong"), "TensorStore": copyable(form, C), "Paired": form.second is not None}
    written |= {"Blocks": str(problem.device.multiprocessors or 132), "StoreC": str(min(2, width(form, C, (8, 2))))}
    return "\n".join([*lines, constants(tiles, written, flags)])


def describe(problem: Problem, form: Form, plan: Plan) -> tuple[str, ...]:
    """The header's lines on tile and shared memory."""
    plan = _settled(problem, form, plan)
    knobs = {name: value for name, value in plan.knobs.items() if isinstance(value, int)}
    bm, bn, stages, panels = (knobs[name] for name in ("bm", "bn", "stages", "panels"))
    way = "take tiles in turn" if knobs["pingpong"] else "share a tile"
    return (
        f"tile: block {bm} x {bn} x {BK}, 2 warpgroups that {way}, clusters of {knobs['cluster']} in M, float32 sums",
        f"  shared memory: A {bm} x {BK} x {stages} x 2 = {bm * BK * stages * 2} bytes, "
        f"B {bn} x {BK} x {stages} x 2 = {bn * BK * stages * 2} bytes, C {2 * panels * _PANEL_BYTES} bytes",
    )
