"""Attention as a recipe of the playbook: one kernel that never writes the scores."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, prod

from knowledge.compiler.ir.dtypes import BYTES
from knowledge.compiler.ir.expressions import UnwritableError
from knowledge.compiler.plan import Decline, Move, Plan
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.attention import cpu, cuda
from knowledge.compiler.schedule.attention import hopper as attention_hopper
from knowledge.compiler.schedule.attention.match import Attention, attention_of

# Columns of a head at most: what a warp keeps of its rows of the result in registers.
WIDEST = 256


class AttentionRecipe:
    """Tiles of rows and keys from the start, on tensor cores or in a processor's registers; moves are other tiles."""

    name = "attention"

    def first_plan(self, problem: Problem) -> Plan | Decline:
        """The largest of the tiles that fit, or why it is no attention that this writes."""
        if problem.on_gpu and not problem.device.has.mma:
            return Decline("attention as one kernel needs a GPU of at least sm_80")
        try:
            form = attention_of(problem)
        except UnwritableError as failure:
            return Decline(str(failure))
        if reason := _unsuited(problem, form):
            return Decline(reason)
        found = plans(problem, form)
        return found[0] if found else Decline("attention whose tiles have no room in shared memory")

    def moves(self, problem: Problem, plan: Plan) -> tuple[Move, ...]:
        """Another tile: how many rows a block has and how many keys are on the way, a trial tells."""
        if not problem.on_gpu:
            return tuple(_on_a_processor(problem, plan))
        why = "rows a warp, keys a tile and blocks a multiprocessor trade reads of shared memory against latency"
        return *_shares(problem, plan), *(
            Move(f"tile of {_rows(each)} rows, {each.knobs['keys']} keys, {each.knobs['stages']} stages", why, each,
                 ("occupancy", "latency", "on_chip", "compute"))
            for each in plans(problem, attention_of(problem))
            if each.knobs | {"splits": 0} != plan.knobs | {"splits": 0}
        )  # fmt: skip

    def render(self, problem: Problem, plan: Plan) -> str:
        """The kernel's source."""
        if not problem.on_gpu:
            return cpu.render(problem, attention_of(problem), plan)
        hopper = plan.knobs.get("kernel") == attention_hopper.KERNEL
        render = attention_hopper.render if hopper else cuda.render
        return render(problem, attention_of(problem), plan)


def _unsuited(problem: Problem, form: Attention) -> str:
    """Why the target's kernel cannot take it."""
    if not problem.on_gpu:
        return "" if form.dtype == cpu.TYPE else f"attention of {form.dtype} as one kernel for a processor"
    wide = max(form.inner, form.outer) > WIDEST
    return f"attention with heads of more than {WIDEST} columns" if wide else ""


def _on_a_processor(problem: Problem, plan: Plan) -> Iterator[Move]:
    why = "a longer tile rescales the result less often, a shorter one stays in the first cache with what it reads"
    found = cpu.plans(attention_of(problem), problem.device)
    # Those after its own: no tile comes twice.
    for each in found[found.index(plan) + 1 :] if plan in found else ():
        yield Move(f"tile of {each.knobs['rows']} rows, {each.knobs['keys']} keys", why, each, ("memory", "compute"))


def _rows(plan: Plan) -> int:
    if plan.knobs.get("kernel") == attention_hopper.KERNEL:
        return attention_hopper.ROWS * int(plan.knobs["warpgroups"])
    return int(plan.knobs["rows"]) * int(plan.knobs["warps"])


# For heads of so many columns: rows a warp, warps, keys, stages, blocks; the fastest first. An H200 takes for bfloat16,
# 4 x 32 heads of 4096 x 128, 3.66, 3.71 and 4.20 ms, 16 heads more of 1024 x 64, causal, 0.063, 0.065 and 0.065; for
# float32 8 x 16 heads of 2048 x 64, 2.14, 2.43 and 2.57, 128 x 8 of 512 x 96, causal, 1.21, 1.39 and 1.19.
Tile = tuple[int, int, int, int, int]
_NARROW: dict[int, tuple[Tile, ...]] = {
    64: ((16, 4, 64, 2, 2), (16, 8, 128, 2, 1), (32, 4, 64, 2, 1)),
    128: ((32, 4, 64, 2, 1), (32, 4, 32, 3, 2), (16, 8, 128, 2, 1)),
    256: ((16, 8, 64, 2, 1),),
}
_WIDE: dict[int, tuple[Tile, ...]] = {
    64: ((32, 4, 32, 2, 1), (16, 4, 64, 2, 1), (16, 4, 32, 2, 2)),
    128: ((16, 4, 32, 2, 2), (16, 8, 32, 2, 1), (32, 4, 32, 2, 1)),
    256: (),
}
_SMALL: tuple[Tile, ...] = ((16, 4, 32, 2, 1), (16, 2, 32, 2, 1))
# A warp that has all rows of a head, for decoding.
_ONE: tuple[Tile, ...] = ((16, 1, 32, 3, 2),)
# A block of more rows has too little to do.
FEW_ROWS = 64
# Tiles of keys that a block must have left, and blocks that share them at most: a thread keeps a weight for each.
_LEFT, MOST_SHARES = 4, 64
# From how many on joining costs more than sharing saves: 32 heads of 8, 8192 keys, take an H200 0.0218 ms by 32 blocks
# each, 0.0241 by 64.
_ENOUGH_SHARES = 32
# How many times more multiprocessors than works there must be for shared keys to come before a faster kernel's tiles.
_IDLE = 4


def plans(problem: Problem, form: Attention) -> list[Plan]:
    """All tiles that fit into shared memory, or into a processor's caches, the most promising first."""
    if not problem.on_gpu:
        return cpu.plans(form, problem.device)
    columns = max(form.inner, form.outer)
    tiles = (_WIDE if BYTES[form.dtype] == 4 else _NARROW)[next(most for most in _WIDE if columns <= most)]
    made = attention_hopper.plans(problem, form) if attention_hopper.suits(problem, form) else []
    one = _ONE if form.row.extent <= 16 else ()
    for rows, warps, keys, stages, blocks in (*one, *tiles, *_SMALL):
        knobs: dict[str, int | str] = {"rows": rows, "warps": warps, "keys": keys, "stages": stages, "blocks": blocks}
        plan = Plan(AttentionRecipe.name, knobs)
        few = form.row.extent > FEW_ROWS or rows * warps <= FEW_ROWS
        if few and cuda.fits(form, plan, problem.device):
            made.append(plan.with_knobs(splits=splits(form, plan, problem.device)))
    idle = any(_works(form, plan) * _IDLE <= problem.device.multiprocessors for plan in made[:1])
    shared = [each for each in made if int(each.knobs.get("splits", 1)) >= _IDLE]
    return [*shared, *(each for each in made if each not in shared)] if idle else made


def splits(form: Attention, plan: Plan, device: Device) -> int:
    """How many blocks should share the keys of some rows, so that every multiprocessor has as many as it holds."""
    room = device.shared_bytes or 99 << 10
    at_once = device.multiprocessors * max(1, room // cuda.shared_bytes(form, plan))
    works = _works(form, plan)
    return max(1, min(at_once // works, _tiles_of_keys(form, plan) // _LEFT, _ENOUGH_SHARES))


def _tiles_of_keys(form: Attention, plan: Plan) -> int:
    """How many a block's rows see at most."""
    first, last, sinks, prefix = form.band
    seen = form.key.extent
    if first is not None and last is not None:
        seen = min(seen, max(prefix, sinks + last - first + _rows(plan)))
    return ceil(seen / int(plan.knobs["keys"]))


def _works(form: Attention, plan: Plan) -> int:
    return prod(axis.extent for axis in form.heads) * ceil(form.row.extent / _rows(plan))


def _shares(problem: Problem, plan: Plan) -> tuple[Move, ...]:
    """Half and twice as many blocks that share keys, where several do."""
    own = int(plan.knobs.get("splits", 1))
    fitting = min(MOST_SHARES, ceil(attention_of(problem).key.extent / int(plan.knobs["keys"])))
    why = "More keys on their way at once, or fewer shares that are joined."
    return tuple(
        Move(f"keys shared by {each} blocks", why, plan.with_knobs(splits=each), ("memory", "occupancy", "latency"))
        for each in (own // 2, min(fitting, 2 * own)) if 1 < own != each > 0
    )  # fmt: skip
