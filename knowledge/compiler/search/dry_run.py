"""Which schedules write a forward on a device, and why the others do not: told without that device.

Nothing is compiled. A device that nobody has yet is a `Device` with the capabilities that it will have.
"""

from __future__ import annotations

from dataclasses import dataclass

from knowledge.compiler.plan import Decline, Plan, settled
from knowledge.compiler.problem import Problem
from knowledge.compiler.search.recipes import recipes_for


@dataclass(frozen=True)
class Answer:
    """What one recipe says: the kernels that it begins with and that its moves lead to, or the `reason` for none.

    A recipe with one schedule on the device names itself; one with several names their exemplars.
    """

    recipe: str
    kernels: tuple[str, ...]
    reason: str = ""


def dry_run(problem: Problem) -> tuple[Answer, ...]:
    """Every recipe's answer, in the order of their turns: the first that has kernels writes the forward."""
    found = []
    for recipe in recipes_for(problem):
        plan = recipe.first_plan(problem)
        if isinstance(plan, Decline):
            found.append(Answer(recipe.name, (), plan.reason))
            continue
        begun, _ = settled(recipe, problem, plan)
        plans = (begun, *(move.plan for move in recipe.moves(problem, begun)))
        found.append(Answer(recipe.name, tuple(dict.fromkeys(name for each in plans for name in _kernels(each)))))
    return tuple(found)


def _kernels(plan: Plan) -> list[str]:
    """The schedules of a plan, by the knobs that choose among exemplars: of a forward in parts each part's."""
    named = [str(value) for knob, value in plan.knobs.items() if knob.split(".")[-1] == "kernel"]
    return named or [plan.recipe]
