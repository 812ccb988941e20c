"""The order in which blocks walk over a product's tiles: the knob `group`, which most kernels of the family have."""

from __future__ import annotations

from knowledge.playbook.recipe import Move, Plan


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
