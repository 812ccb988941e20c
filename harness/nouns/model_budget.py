"""The seconds that a whole model's own work takes, as pure arithmetic over what was measured of it."""

from __future__ import annotations

import math

from harness.nouns.candidate import TargetName
from harness.nouns.devices import on_gpu
from harness.nouns.errors import UserError
from harness.nouns.frozen import Frozen

START_S, START_ON_GPU_S = 1.5, 4.0
"""A child that is forked, and the libraries that it loads."""
ENDING_S = 2.0
"""Reports and record, and the end of every process."""
REGION_S = 20.0
"""One region's task, first kernel, build and verdict, where no run of this model has told better."""
LATE_S = 8.0
"""What an answer may be late by before its process is ended."""
FEWEST_ROUNDS = 6
"""Of a comparison by turns: the fewest whose smallest and largest ratio hold the median in 95 % of all cases."""
_WIDE, _WIDE_ON_GPU = 4, 40
"""Calls of a model that take the time of one in float64."""


class ModelCosts(Frozen):
    """Seconds that a model takes: to be made with its inputs, to be exported, for one call, and to be compiled once."""

    made_s: float = 0.0
    exported_s: float = 0.0
    called_s: float = 0.0
    compiled_s: float = 0.0

    def accepting_s(self, regions: int, target: TargetName) -> float:
        """The least that holding a model with so many regions against eager takes: right, alone, and as a whole."""
        gpu = on_gpu(target)
        right = 2 * (2 + (_WIDE_ON_GPU if gpu else _WIDE))
        sides = (regions + 1) + 2 + (2 if gpu else 0)
        calls = right + (FEWEST_ROUNDS + 1) * sides + 4
        return (START_ON_GPU_S if gpu else START_S) + self.made_s + 2 * self.exported_s + calls * self.called_s

    def rounds_s(self, regions: int, rounds: int, limit_s: float) -> float:
        """What so many rounds of both comparisons take, each of which ends after `limit_s`."""
        return sum(min(limit_s, rounds * sides * self.called_s) for sides in (regions + 1, 2))


def refused(name: str, budget_s: float, spent_s: float, costs: ModelCosts, target: TargetName) -> UserError | None:
    """The error for a budget that no answer fits into, with one that would do; None for a budget that may do.

    `spent_s` is what has passed when one call of the model is all that is known of it, or more.
    """
    accepting_s = costs.accepting_s(0, target) + ENDING_S
    if spent_s + accepting_s <= budget_s:
        return None
    wanted = spent_s + 2 * costs.called_s + costs.made_s + costs.exported_s + REGION_S + 1.5 * accepting_s
    return UserError(
        f"{name} has no answer within {budget_s:g} s: {spent_s:.0f} s were gone when it had been run, and to hold it "
        f"against eager takes {accepting_s:.0f} s.",
        f"A budget of {rounded_up(wanted)} s would do (max_wall_s).",
    )


def rounded_up(seconds: float) -> int:
    """To tens, for people."""
    return 10 * math.ceil(seconds / 10)
