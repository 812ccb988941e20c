"""The tiled product: C tiles, K steps, panels in packed buffers, fragments in registers. Its knobs and its moves.

Knobs: `lanes` (elements a SIMD register; 1 is scalar), `mr` x `nv` (fragment rows x registers a row), `bm`, `bn`,
`bk` (a thread's tile), `pack` ("none", "B", "AB"), `threads` (0 or 1), `swept` (1: trials have chosen the tile).
"""

from __future__ import annotations

from math import ceil

from knowledge.compiler.ir.cost import SURELY_THREADING_FLOPS, THREADING_FLOPS
from knowledge.compiler.plan import Move, Plan
from knowledge.compiler.problem import Device
from knowledge.compiler.schedule.gemm.form import BYTES, A, Form

# A plain scalar loop manages about 1e9 FLOP/s: above this it would keep the user waiting for seconds a call.
PATIENCE_FLOPS = 1 << 31
# A copied element pays for itself where it is used again so often; and the buffers' allocation has its cost, too.
PACKING_REUSE, PACKING_FLOPS = 64, 1 << 21
STILL_ROWS = 6
"""Rows of A that a fragment reads where they lie: one set of a cache of eight ways has room for them, and for B."""
TARGET_BLK_K = 256
"""Products a partial sum: a fragment's operands stay in the caches, and the rounding error of a long K stays small."""


def first_plan(form: Form, device: Device) -> Plan:
    """Plain loops; where those would take seconds, the blocked and packed kernel of one thread."""
    plain: dict[str, int | str] = {
        "lanes": 1, "mr": 1, "nv": 1, "bm": form.m.extent, "bn": form.n.extent,
        "bk": _even(form.k.extent, TARGET_BLK_K), "pack": "none", "threads": 0, "swept": 0,
    }  # fmt: skip
    plan = Plan("gemm", plain)
    if form.flops < PATIENCE_FLOPS:
        return plan
    plan = plan.with_knobs(lanes=lanes(form, device), **fragment(form, device))
    plan = plan.with_knobs(pack="none" if form.m.extent == 1 else "B" if _read_in_place(form, plan) else "AB")
    return plan.with_knobs(**tiles(form, device, plan))


def lanes(form: Form, device: Device) -> int:
    """Elements of the product's type in one SIMD register."""
    return max(1, device.simd_floats * 4 // BYTES[form.dtype])


def fragment(form: Form, device: Device) -> dict[str, int]:
    """Rows and registers a row of the fragment: least work on padding and fewest loads a multiply-add.

    Register counts are x86's: 32 with 16 floats each, else 16. One register a row is left for B, one for A's element.
    """
    if form.m.extent == 1:
        # A vector times a matrix: no element of B is used twice, memory is the limit and registers gain nothing.
        return {"mr": 1, "nv": 1}
    width = lanes(form, device)
    registers = 32 if device.simd_floats >= 16 else 16
    best: tuple[float, int, int] | None = None
    for nv in (4, 3, 2, 1):
        most = min((registers - nv - 2) // nv, 14 if registers == 32 else 12)
        rows = min(most, form.m.extent)
        rows = ceil(form.m.extent / ceil(form.m.extent / rows)) if form.m.extent < 4 * rows else rows
        padded = ceil(form.n.extent / (nv * width)) * nv * width / form.n.extent
        padded *= ceil(form.m.extent / rows) * rows / form.m.extent
        # A vector load occupies a port for about half as long as a multiply-add.
        cost = padded * (1 + 0.5 * (rows + nv) / (rows * nv))
        if best is None or cost < best[0]:
            best = (cost, rows, nv)
    assert best is not None
    return {"mr": best[1], "nv": best[2]}


# Rows of a matrix that memory delivers side by side, and partial sums at most, where a vector is multiplied by it.
STREAMS = 8
MAX_PARTIALS = 2048


def tiles(form: Form, device: Device, plan: Plan) -> dict[str, int]:
    """Tile extents: B's panels take half the L2 cache, A's a quarter, and every thread gets as many tiles."""
    mr, nr = int(plan.knobs["mr"]), int(plan.knobs["nv"]) * int(plan.knobs["lanes"])
    bk = _even(form.k.extent, TARGET_BLK_K)
    if form.m.extent == 1:
        # A vector times a matrix: nothing is reused, so the matrix is read in long runs, a few rows side by side.
        bk = _even(form.k.extent, max(STREAMS, form.k.extent // MAX_PARTIALS))
        return {"bm": 1, "bn": _round_up(ceil(form.n.extent / _parts(form, device)), nr), "bk": bk}
    elements = device.l2_bytes // BYTES[form.dtype] // TARGET_BLK_K
    bm, bn = max(mr, elements // 4), max(nr, elements // 2)
    m_parts, n_parts = ceil(form.m.extent / bm), ceil(form.n.extent / bn)
    share = device.threads * (4 if form.triangle else 1)
    while (m_parts * n_parts * form.batches) % share and m_parts * n_parts * form.batches < 8 * share:
        if form.m.extent / m_parts <= mr and form.n.extent / n_parts <= nr:
            break
        # Every part of M packs all of B once more, and every part of N all of A: the longer one is cut.
        if form.m.extent / m_parts >= form.n.extent / n_parts and form.m.extent / m_parts > mr:
            m_parts += 1
        else:
            n_parts += 1
    return {
        "bm": _round_up(ceil(form.m.extent / m_parts), mr),
        "bn": _round_up(ceil(form.n.extent / n_parts), nr),
        "bk": bk,
    }


def _parts(form: Form, device: Device) -> int:
    """Pieces that each product is cut into so that every core has work."""
    return ceil(device.threads / min(form.batches, device.threads))


def _even(extent: int, block: int) -> int:
    return ceil(extent / ceil(extent / block))


def _round_up(value: int, unit: int) -> int:
    return ceil(value / unit) * unit


def moves(form: Form, device: Device, plan: Plan) -> tuple[Move, ...]:
    """What is not yet in the plan, the most promising first."""
    knobs = plan.knobs
    if knobs["lanes"] == 1 and lanes(form, device) > 1:
        return (_simd(form, device, plan), *_threads(form, device, plan))
    found: list[Move] = []
    size = fragment(form, device)
    if (knobs["mr"], knobs["nv"]) == (1, 1) and size != {"mr": 1, "nv": 1}:
        why = f"Keep {size['mr']} x {size['nv']} registers of C: each loaded element then feeds several multiply-adds."
        found.append(Move("register blocking", why, _refit(plan.with_knobs(**size)), sure=True))
    found += _threads(form, device, plan)
    if not _tiled(form, device, plan):
        found.append(_tiling(form, device, plan))
    found += _packing(form, plan)
    if _tiled(form, device, plan):
        found += _sizes(form, plan)
    return tuple(found)


def _tiled(form: Form, device: Device, plan: Plan) -> bool:
    """Whether no tile is larger than the caches ask for."""
    size = tiles(form, device, plan)
    return bool(plan.knobs["swept"]) or all(int(plan.knobs[name]) <= value for name, value in size.items())


def _refit(plan: Plan) -> Plan:
    """Tiles must stay multiples of the fragment."""
    mr, nr = int(plan.knobs["mr"]), int(plan.knobs["nv"]) * int(plan.knobs["lanes"])
    return plan.with_knobs(bm=_round_up(int(plan.knobs["bm"]), mr), bn=_round_up(int(plan.knobs["bn"]), nr))


def _simd(form: Form, device: Device, plan: Plan) -> Move:
    width = lanes(form, device)
    why = f"Compute {width} columns at a time in one register."
    after = plan.with_knobs(lanes=width)
    if form.n.strides[1] != 1:
        why += " B is packed so that they lie next to each other."
        after = after.with_knobs(pack="B")
    return Move("SIMD", why, _refit(after), sure=True)


def _threads(form: Form, device: Device, plan: Plan) -> list[Move]:
    if plan.knobs["threads"] or device.threads < 2 or form.flops < THREADING_FLOPS:
        return []
    after = plan.with_knobs(threads=1)
    if not _tiled(form, device, plan):
        # No tiles to share out yet: one band of C a core.
        rows = form.m.extent >= form.n.extent
        name, extent = ("bm", form.m.extent) if rows else ("bn", form.n.extent)
        after = _refit(after.with_knobs(**{name: ceil(extent / _parts(form, device))}))
    return [Move("threads", "Share C among the cores.", after, sure=form.flops >= SURELY_THREADING_FLOPS)]


def _tiling(form: Form, device: Device, plan: Plan) -> Move:
    size = tiles(form, device, plan)
    if form.m.extent == 1:
        why = f"Read B in long runs of {size['bn']}, {size['bk']} rows side by side, as memory delivers it best."
        return Move("tiling", why, plan.with_knobs(**size), sure=True)
    why = f"Work through tiles of {size['bm']} x {size['bn']} x {size['bk']}, whose operands stay in the caches."
    return Move("tiling", why, plan.with_knobs(**size), sure=True)


def _packing(form: Form, plan: Plan) -> list[Move]:
    if plan.knobs["pack"] == "AB" or form.m.extent == 1:
        return []
    sure = min(form.m.extent, form.n.extent) >= PACKING_REUSE and form.flops >= PACKING_FLOPS
    in_place = _read_in_place(form, plan)
    why = "Copy A's and B's tiles into contiguous aligned panels, read in order and without cache conflicts."
    both = Move("packing", why, plan.with_knobs(pack="AB"), sure=sure and not in_place)
    if plan.knobs["pack"] == "B" or form.m.strides[A] == 1:
        return [both]
    why = "Copy B's tiles alone into contiguous aligned panels; A is read where it lies."
    alone = Move("packing B", why, plan.with_knobs(pack="B"), sure=sure and in_place)
    return [alone, both] if in_place else [both, alone]


def _read_in_place(form: Form, plan: Plan) -> bool:
    """Whether A's rows are read as fast as panels of them: each in order, few at a time."""
    return form.k.strides[A] == 1 and int(plan.knobs["mr"]) <= STILL_ROWS


def _sizes(form: Form, plan: Plan) -> list[Move]:
    """Tiles of half and twice the rows, and of twice the depth."""
    if plan.knobs["swept"] or form.m.extent == 1:
        return []
    bm, mr = int(plan.knobs["bm"]), int(plan.knobs["mr"])
    rows = tuple(size for size in (_round_up(ceil(bm / 2), mr), 2 * bm) if size < form.m.extent + mr)
    sweep = {"bm": rows, "bk": (_even(form.k.extent, 2 * TARGET_BLK_K),)}
    why = "What a tile reuses and what room it leaves in the caches pull against each other: trials tell."
    return [Move("tile sizes", why, plan.with_knobs(swept=1), sweep=sweep)]
