"""The switch that withholds the profiler's word until a kernel's structure is sound."""

from __future__ import annotations

from nodes.history import steps_without_gain
from nodes.settings import Settings
from nodes.state import RunState, require


def gate_open(state: RunState, settings: Settings) -> bool:
    """Whether the optimizer is shown a profile: from its depth on, or while moves bring nothing.

    Who has tried in vain what the class suggests is helped more by a measurement than by one guess more.
    """
    gates = settings.profile_from_depth
    stuck = gates.when_stuck is not None and steps_without_gain(state.history) >= gates.when_stuck
    return stuck or state.depth >= gates.depth(require(state.task, "task").op_class)
