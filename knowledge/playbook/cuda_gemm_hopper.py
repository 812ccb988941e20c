"""Products of float16 or bfloat16 operands by Hopper's wgmma and tensor copies (exemplar gemm_wgmma_16bit).

Knobs: `bm`, `bn` (a tile, 64 k's deep), `pingpong` (1: the two warpgroups take tiles in turn; 0: they share each),
`stages` (tiles in shared memory), `cluster` (blocks that share each tile of B), `group` (rows of clusters side by
side), `panels` (pieces of C of 64 x 64 that a warpgroup has in shared memory), `swept` (1: clusters and order were).
"""

from __future__ import annotations

from math import ceil

from knowledge.playbook.cuda_gemm_text import contiguous, width
from knowledge.playbook.gemm_form import NARROW, A, B, C, Form
from knowledge.playbook.problem import Device, Problem
from knowledge.playbook.recipe import Move, Plan

KERNEL = "gemm_wgmma_16bit"
ARCHITECTURE = "sm_90a"
BK = 64
# Elements in the 16 bytes that a tensor copy's strides must be multiples of.
_UNIT = 8
_PANEL_BYTES = 64 * 64 * 2
# What the barriers and the alignment of shared memory take at most, in bytes.
_BARRIERS = 1 << 10
SHARED_BYTES = 227 << 10


def suits(problem: Problem, form: Form) -> bool:
    """Whether the device is Hopper, and tensor copies can read both operands."""
    narrow = problem.device.architecture == ARCHITECTURE and form.dtype in NARROW and form.kind == "contract"
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
    """All tiles, each with and without clusters, the fastest by the model first."""
    plans = [
        Plan("gemm", {"kernel": KERNEL, **tile, "cluster": cluster, "group": 8, "swept": 0})
        for tile in TILES
        for cluster in (2, 1)
        if cluster * tile["bm"] < form.m.extent + tile["bm"]
    ]
    return sorted(plans, key=lambda plan: cycles(problem.device, form, plan))


# Of one multiprocessor: multiply-adds of 16-bit operands a cycle (the architecture's), the share that large tiles
# reach, and the bytes a cycle that shared memory and the L2 cache give, as they fit 16 products measured on an H200.
_PRODUCTS_A_CYCLE, _REACHED, _SHARED_BYTES_A_CYCLE, _L2_BYTES_A_CYCLE = 2048, 0.94, 143, 41
# Cycles before the first product and after the last one, of an element that is stored, and of one whose steps call a
# function such as exp, from the same products.
_BEGINNING, _STORE, _FUNCTION = 6000, 0.09, 0.25
_FUNCTIONS = ("exp", "erf", "tanh", "log")


def cycles(device: Device, form: Form, plan: Plan) -> float:
    """The clock cycles that the model expects of a plan: waves of tiles, each step of K as slow as its slowest part."""
    knobs = plan.knobs
    bm, bn, cluster = int(knobs["bm"]), int(knobs["bn"]), int(knobs["cluster"])
    tiles = ceil(form.m.extent / (bm * cluster)) * ceil(form.n.extent / bn) * form.batches
    products = bm * bn * BK / (_PRODUCTS_A_CYCLE * _REACHED)
    # Tensor cores read A's rows once and B for every 64 of them; before that both are written.
    shared = (bm + bn * bm / 64 + bm + bn) * BK * 2 / _SHARED_BYTES_A_CYCLE
    brought = (bm + bn / cluster) * BK * 2 / _L2_BYTES_A_CYCLE
    summed = ceil(form.k.extent / BK) * max(products, shared, brought)
    called = any(name in code for code in form.codes for name in _FUNCTIONS)
    stored = bm * bn * (_STORE + _FUNCTION * called)
    waves = ceil(tiles / max(1, device.multiprocessors // cluster))
    if not knobs["pingpong"]:
        return _BEGINNING + waves * (summed + stored)
    return _BEGINNING + waves * max(summed, stored) + min(summed, stored)


def moves(problem: Problem, form: Form, plan: Plan) -> tuple[Move, ...]:
    """The other tiles, the fastest by the model first; after three, a sweep over clusters and orders of the tiles."""
    against = ("on_chip", "compute", "latency", "occupancy")
    others = [each for each in ranked(problem, form) if any(each.knobs[name] != plan.knobs[name] for name in _TILE)]
    found = [Move(_name(each), _WHY, each, against) for each in others[:6]]
    return (*found[:3], *_orders(form, plan), *found[3:])


def _orders(form: Form, plan: Plan) -> tuple[Move, ...]:
    if plan.knobs["swept"] or form.m.extent <= int(plan.knobs["bm"]):
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


def knobs_text(problem: Problem, form: Form, plan: Plan) -> str:
    """The section `knobs`."""
    knobs = plan.knobs
    values = {
        "Stages": knobs["stages"], "Cluster": knobs["cluster"], "Blocks": problem.device.multiprocessors or 132,
        "Group": knobs["group"], "Panels": knobs["panels"], "StoreC": min(2, width(form, C, (8, 2))),
    }  # fmt: skip
    flags = {"PingPong": bool(knobs["pingpong"]), "TensorStore": copyable(form, C)}
    return "\n".join(
        [
            *(f"using {name} = Int<{knobs[knob]}>;" for name, knob in (("BLK_M", "bm"), ("BLK_N", "bn"))),
            *(f"constexpr int {name} = {value};" for name, value in values.items()),
            *(f"constexpr bool {name} = {str(value).lower()};" for name, value in flags.items()),
        ]
    )


def describe(plan: Plan) -> tuple[str, ...]:
    """The header's lines on tile and shared memory."""
    knobs = {name: value for name, value in plan.knobs.items() if isinstance(value, int)}
    bm, bn, stages, panels = (knobs[name] for name in ("bm", "bn", "stages", "panels"))
    way = "take tiles in turn" if knobs["pingpong"] else "share a tile"
    return (
        f"tile: block {bm} x {bn} x {BK}, 2 warpgroups that {way}, clusters of {knobs['cluster']} in M, float32 sums",
        f"  shared memory: A {bm} x {BK} x {stages} x 2 = {bm * BK * stages * 2} bytes, "
        f"B {bn} x {BK} x {stages} x 2 = {bn * BK * stages * 2} bytes, C {2 * panels * _PANEL_BYTES} bytes",
    )
