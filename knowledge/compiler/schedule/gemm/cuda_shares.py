"""How blocks share a product: the order in which they walk over its tiles, and among how many each K is shared."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from knowledge.compiler.plan import Move, Plan
from knowledge.compiler.schedule.gemm.form import Form

# Clock cycles of the second kernel, which adds the partial sums: its launch, and their way to memory and back.
SECOND_KERNEL = 6000
# Cycles of one more share there: one more load that waits, and the bytes that an H200 moves in a cycle.
_ONE_MORE, _BYTES_A_CYCLE = 60, 2400


def cycles(form: Form, deep: int, step: float, shares: int) -> float:
    """What `shares` blocks to a tile of C take whose K has `deep` tiles of `step` cycles each."""
    summed = ceil(deep / shares) * step
    if shares == 1:
        return summed
    written = 8 * form.batches * form.m.extent * form.n.extent / _BYTES_A_CYCLE
    return summed + SECOND_KERNEL + shares * (_ONE_MORE + written)


def cheapest(plan: Plan, most: int, cost: Callable[[Plan], float]) -> Plan:
    """The plan with as many blocks to a tile, at most `most`, as cost least: its knob `splits`, 1 where none pay."""
    return min((plan.with_knobs(splits=each) for each in range(1, max(1, most) + 1)), key=cost)


def tried(shares: int, deep: int) -> tuple[int, ...]:
    """Other numbers of blocks for a sweep: half and twice as many, and the next ones that cut K evenly."""
    return tuple(sorted({max(1, shares // 2), min(deep, 2 * shares), ceil(shares * 0.7)} - {shares}))


def raster_orders(plan: Plan, groups: tuple[int, ...], unit: str = "tiles") -> tuple[Move, ...]:
    """One move for each of `groups`, rows of `unit` side by side, that is not the plan's own."""
    return tuple(
        Move(
            f"raster order {group}",
            f"Run {group} rows of {unit} side by side, so that their operands are still in the L2 cache.",
            plan.with_knobs(group=group),
            ("memory",),
        )
        for group in groups
        if plan.knobs["group"] != group
    )
