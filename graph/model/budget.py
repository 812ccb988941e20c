"""How a model's budget is shared out: what its end needs, which regions are begun, and what each may have."""

from __future__ import annotations

from dataclasses import dataclass

from graph.model.plan import PlannedRegion
from harness.judging.capturing import COMPILE_S, LEAST_COMPILE_S
from harness.nouns.candidate import TargetName
from harness.nouns.errors import UserError
from harness.nouns.model_budget import ENDING_S, REGION_S, ModelCosts, rounded_up

ROUNDS, ROUNDS_S = 120, 12.0
"""Of a comparison of whole models: so many, or as many as this time gives."""
SAFE = 1.1
"""The end's estimate comes from calls on a machine that may be busier by then."""
FOR_MORE, SMALL_S = 0.1, 60.0
"""Of what the budget has beyond a small one: more rounds than the fewest, and likewise torch.compile's work, have no
more than this share."""
LEAST_REGION_S = REGION_S / 2
"""With less no region is begun: an idle machine judges a small kernel in so long."""
STEP_S = 45.0
"""A region's longest step, a kernel's build and its duel with the best one: none is begun within its last."""
AGAIN = 1.5
"""torch.compile's work and what of it is done twice, as times of itself."""
FOR_INSIDE, QUICK_S, MOST_INSIDE_S = 0.4, 30.0, 2 * COMPILE_S
"""Of what the budget has beyond a quick one, where kernels are put into what torch.compile makes of the model: then it
compiles the model anew for each region."""
MORE_KERNELS = 0.1
"""What each operation behind the first adds to a region's seconds: where several kernels are one source."""


FOR_CLOCKING = 0.7
"""Of that: what compiles by then is in the caches for all that is compiled later."""


@dataclass(frozen=True)
class End:
    """What is kept of a budget for assembly, acceptance and reports. `models` take turns on the device, ours included.

    `compiled`: torch.compile's versions are baselines; `inside`: they are also what kernels are put into.
    What is left over of the regions' time is the end's as well.
    """

    costs: ModelCosts
    target: TargetName
    budget_s: float
    models: int = 1
    compiled: bool = False
    inside: bool = False

    def accepting_s(self, regions: int) -> float:
        """To hold a model with so many regions against eager, and for those who may have the device before."""
        more_s = min(self.costs.rounds_s(regions, ROUNDS, ROUNDS_S), self._spare_s)
        return (SAFE * self.costs.accepting_s(regions, self.target)) * self.models + more_s

    def kept_s(self, regions: int) -> float:
        """All of it. torch.compile has a time of its own only where the budget is large."""
        return self.accepting_s(regions) + ENDING_S + self.models * self._own_compile_s

    def compile_s(self, left_s: float, regions: int) -> float:
        """What torch.compile's work may take where so much is left before the answer is due.

        The accepting process does some of it again, from filled caches. It has the device alone: others who wait for it
        can give no more than what each of them kept.
        """
        free_s = max(0.0, min(COMPILE_S, (left_s - self.accepting_s(regions)) / AGAIN))
        own_s = self._own_compile_s / (AGAIN if self.inside else 1.0)
        return free_s if self.models == 1 else min(free_s, own_s)

    @property
    def _own_compile_s(self) -> float:
        if self.inside:
            share_s = min(MOST_INSIDE_S, FOR_INSIDE * max(0.0, self.budget_s - QUICK_S) / self.models)
            own_s = max(share_s - self.costs.compiled_s, share_s * (1.0 - FOR_CLOCKING))
        else:
            own_s = min(COMPILE_S, self._spare_s / self.models) if self.compiled else 0.0
        return own_s if own_s >= LEAST_COMPILE_S else 0.0

    @property
    def _spare_s(self) -> float:
        return FOR_MORE * max(0.0, self.budget_s - SMALL_S)


@dataclass(frozen=True)
class Allowance:
    """What a region's run may have: it begins nothing after `soft_s`, and is ended after `hard_s`."""

    soft_s: float
    hard_s: float


def allowance(room_s: float, share: float, places: int, first_s: float) -> Allowance:
    """Of the `room_s` that all regions still have: this one's `share` by gain, where `places` of them go side by side.

    A run that is on its way may use time of those that have not begun, but never more than there is.
    """
    fair_s = min(room_s, max(first_s, room_s * places * share))
    hard_s = min(room_s, 2 * fair_s + first_s)
    return Allowance(min(fair_s, max(hard_s / 2, hard_s - STEP_S)), hard_s)


def by_gain_a_second(regions: tuple[PlannedRegion, ...]) -> tuple[PlannedRegion, ...]:
    """Those first that gain most for their time."""
    return tuple(
        sorted(regions, key=lambda region: -region.gain_ms / (1 + MORE_KERNELS * (len(region.operations) - 1)))
    )


def affordable(left_s: float, end: End, regions: int, places: int, first_s: float) -> int:
    """How many of so many regions there is time for, beside the end's own that each of them makes longer."""
    fitting = (
        number
        for number in range(regions, 0, -1)
        if number <= places * int(max(0.0, left_s - end.kept_s(number)) / first_s)
    )
    return next(fitting, 0)


def clocking_s(budget_s: float) -> float:
    """What Inductor may take to compile a model whose operations are then clocked within what it made."""
    return FOR_CLOCKING * min(MOST_INSIDE_S, FOR_INSIDE * max(0.0, budget_s - QUICK_S))


def too_small(name: str, budget_s: float, doing: str) -> UserError:
    """The error where the whole budget went by in one step: how long that takes nobody knows yet."""
    return UserError(
        f"{name} has no answer within {budget_s:g} s: {doing} had not ended by then.",
        f"Try a budget of {rounded_up(2 * budget_s + REGION_S)} s (max_wall_s), or smaller inputs.",
    )
