"""Every kernel that the playbook can make of one that it wrote, or of two: for a search that compares many."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from knowledge.playbook.author import first_draft, more_exact, recipes
from knowledge.playbook.problem import Problem
from knowledge.playbook.recipe import Decline, Draft, Move, Plan, Recipe
from knowledge.playbook.sweeping import within


def translations(problem: Problem, max_sweep: int) -> Iterator[Draft]:
    """The first kernel, more exact where it multiplies in TF32, then what one move makes of it.

    Nothing where no recipe can write the problem.
    """
    first = first_draft(problem)
    if not isinstance(first, Decline):
        yield first
        if exact := more_exact(problem, first.source):
            yield Draft(exact, "three TF32 products", "where PyTorch does not round to TF32, one would be wrong")
        yield from mutations(problem, first.source, max_sweep)


def mutations(problem: Problem, source: str, max_sweep: int) -> Iterator[Draft]:
    """What one move makes of a kernel, in the recipe's order of moves; of a sweep each combination by itself."""
    found = _planned(source)
    if found is None:
        return
    recipe, plan = found
    for move in recipe.moves(problem, plan):
        for name, varied in _points(move, max_sweep):
            yield Draft(recipe.render(problem, varied), name, move.why)


def crossings(problem: Problem, first: str, second: str) -> Iterator[Draft]:
    """Kernels of one recipe between two: the first one's knobs, with ever more of those in which the second differs."""
    ours, theirs = _planned(first), _planned(second)
    if (
        ours is None
        or theirs is None
        or ours[0].name != theirs[0].name
        or ours[1].knobs.keys() != theirs[1].knobs.keys()
    ):
        return
    recipe, plan = ours
    apart = [knob for knob, value in theirs[1].knobs.items() if plan.knobs[knob] != value]
    for count in range(1, len(apart)):
        taken = {knob: theirs[1].knobs[knob] for knob in apart[:count]}
        said = ", ".join(f"{knob} {value}" for knob, value in taken.items())
        yield Draft(recipe.render(problem, plan.with_knobs(**taken)), f"crossed: {said}", "both parents are fast")


def _planned(source: str) -> tuple[Recipe, Plan] | None:
    """The recipe that wrote a kernel, and its plan; None where the playbook did not."""
    plan = Plan.read(source)
    recipe = next((each for each in recipes() if plan is not None and each.name == plan.recipe), None)
    return (recipe, plan) if plan is not None and recipe is not None else None


def _points(move: Move, max_sweep: int) -> Iterator[tuple[str, Plan]]:
    """The move's own plan, then those of its sweep, each with a name that tells it from the others."""
    yield move.name, move.plan
    values = within(move.sweep, move.plan, max_sweep) if move.sweep else {}
    own = tuple(move.plan.knobs[knob] for knob in values)
    for point in product(*((move.plan.knobs[knob], *choices) for knob, choices in values.items())):
        if point != own:
            said = ", ".join(f"{knob} {value}" for knob, value in zip(values, point, strict=True))
            yield f"{move.name}: {said}", move.plan.with_knobs(**dict(zip(values, point, strict=True)))
