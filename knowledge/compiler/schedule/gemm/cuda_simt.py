"""Products on the SIMT cores (exemplars gemm_simt*): four forms, each with the one before it as its start.

Knobs: `kernel` (the exemplar), `bm`, `bn`, `bk` (a block's tile), `stages` (tiles in shared memory), `blocks` (that a
multiprocessor holds), `group` (tile rows side by side). The plain form has its tile alone.
"""

from __future__ import annotations

from math import ceil

from knowledge.compiler.emit.source_text import constants
from knowledge.compiler.plan import Move, Plan
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.gemm.cuda_text import contiguous, width
from knowledge.compiler.schedule.gemm.form import A, B, C, Form

PLAIN, VECTORIZED, MULTISTAGE, SWIZZLED = KERNELS = (
    "gemm_simt",
    "gemm_simt_vectorized",
    "gemm_simt_multistage",
    "gemm_simt_swizzled",
)
_THREADS = 256
_GAINS = {
    VECTORIZED: (
        "vector access",
        "Load and store 4 elements at once, fetch the next tile while this one is multiplied, and read fragments of "
        "shared memory by 16 bytes.",
        ("coalescing", "memory", "on_chip"),
    ),
    MULTISTAGE: (
        "asynchronous copies",
        "Copy tiles to shared memory without passing registers, two tiles ahead, so that their latency hides.",
        ("latency", "memory"),
    ),
    SWIZZLED: (
        "swizzled shared memory",
        "Swizzle the tiles instead of padding them: no bank conflicts, and less shared memory.",
        ("bank_conflicts", "occupancy"),
    ),
}


def first_plan(form: Form, device: Device) -> Plan:
    """The plain form, its tile small where large tiles would leave multiprocessors idle."""
    return Plan("gemm", {"kernel": PLAIN, **_block(form, device), "bk": 8})


def moves(form: Form, device: Device, plan: Plan) -> tuple[Move, ...]:
    """The next form, with the tile that it is best at."""
    kernel = str(plan.knobs["kernel"])
    if kernel == SWIZZLED:
        return ()
    after = KERNELS[KERNELS.index(kernel) + 1]
    block = _block(form, device)
    knobs: dict[str, int | str] = {"kernel": after, **block, "bk": 16, "blocks": 2, "group": 8}
    if after != VECTORIZED:
        knobs["stages"] = 3
    name, why, against = _GAINS[after]
    return (Move(name, why, Plan("gemm", knobs), against),)


def knobs_text(problem: Problem, form: Form, plan: Plan) -> str:
    """The section `knobs`."""
    knobs, kernel = plan.knobs, plan.knobs["kernel"]
    extents = {"BLK_M": "bm", "BLK_N": "bn", "BLK_K": "bk"}
    tiles = {name: knobs[knob] for name, knob in extents.items()}
    if kernel == PLAIN:
        return constants(tiles, {})
    values = {
        "MinBlocks": knobs["blocks"], "Group": knobs["group"], "CopyA": _copy(form, A, kernel == VECTORIZED),
        "CopyB": _copy(form, B, kernel == VECTORIZED), "StoreC": _four(width(form, C)),
    }  # fmt: skip
    if kernel != VECTORIZED:
        values["Stages"] = knobs["stages"]
    return constants(tiles, values)


def describe(problem: Problem, form: Form, plan: Plan) -> tuple[str, ...]:
    """The header's lines on tile, registers and shared memory."""
    kernel = str(plan.knobs["kernel"])
    bm, bn, bk = (int(plan.knobs[name]) for name in ("bm", "bn", "bk"))
    stages = {PLAIN: 1, VECTORIZED: 2}.get(kernel, int(plan.knobs.get("stages", 1)))
    pad = 0 if kernel == SWIZZLED else 4
    shared = ", ".join(
        f"{name} {rows + pad} x {bk} x {stages} x 4 = {(rows + pad) * bk * stages * 4} bytes"
        for name, rows in (("A", bm), ("B", bn))
    )
    return (
        f"tile: block {bm} x {bn} x {bk}, {_THREADS} threads, {bm // 16} x {bn // 16} of C each, float32 cores",
        f"  shared memory: {shared}",
    )


def _block(form: Form, device: Device) -> dict[str, int]:
    """128 x 128; a side is halved where it does not fill, both where the tiles are fewer than the multiprocessors."""
    tiles = ceil(form.m.extent / 128) * ceil(form.n.extent / 128) * form.batches
    few = tiles < device.multiprocessors
    return {"bm": 64 if few or form.m.extent <= 64 else 128, "bn": 64 if few or form.n.extent <= 64 else 128}


def _copy(form: Form, place: int, transposes: bool) -> int:
    """Elements a copy moves. Along K only where the way leads through registers, which can transpose."""
    along_k = contiguous(form, place) is form.k
    return 1 if along_k and not transposes else _four(width(form, place))


def _four(count: int) -> int:
    return 4 if count == 4 else 1
