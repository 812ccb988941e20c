"""Kernels near a kernel: the next move, what one move makes, and what lies between two."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from knowledge.compiler.plan import PLAN_MARK, Decline, Draft, Move, Plan, Recipe, swept, within
from knowledge.compiler.problem import Problem
from knowledge.compiler.search.first import HOW_TO_SET_A_MODEL, first_draft
from knowledge.compiler.search.recipes import planned


def next_draft(
    problem: Problem, source: str, tried: tuple[str, ...], bottleneck: str | None = None, *, max_sweep: int = 12
) -> Draft | Decline:
    """The kernel after the first move that is not among `tried` (moves from this very kernel that did not help).

    Where a profile tells the `bottleneck`, the moves against it come first, else in the recipe's own order. A sweep
    has at most `max_sweep` variants. What would change nothing but the plan's own line is no move: of kernels in parts
    nothing is swept, and a part's sweep may have had no more to it.
    """
    if (found := planned(source)) is None:
        return Decline(f"The playbook optimizes only kernels that it wrote. {HOW_TO_SET_A_MODEL}")
    recipe, plan = found
    for move in sorted(recipe.moves(problem, plan), key=lambda move: bottleneck not in move.against):
        known = move.name in tried or (move.instead_of_sweep and max_sweep > 1)
        after = None if known else _kernel(recipe, problem, move, max_sweep)
        if after is not None and _code(after) != _code(source):
            return Draft(after, move.name, move.why)
    return Decline("The playbook has no move left for this kernel.")


def _code(source: str) -> list[str]:
    return [line for line in source.splitlines() if not line.startswith(PLAN_MARK)]


def _kernel(recipe: Recipe, problem: Problem, move: Move, max_sweep: int) -> str | None:
    """The kernel after the move; None where it would be a sweep, and none can be had."""
    if not move.sweep:
        return recipe.render(problem, move.plan)
    values = within(move.sweep, move.plan, max_sweep)
    return swept(partial(recipe.render, problem), move.plan, values) if values else None


def more_exact(problem: Problem, source: str) -> str | None:
    """The kernel `source` with float32's accuracy where it multiplies in TF32; None where it does not."""
    found = planned(source)
    after = found[1].more_exact if found is not None else None
    return found[0].render(problem, after) if found is not None and after is not None else None


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
    found = planned(source)
    if found is None:
        return
    recipe, plan = found
    for move in recipe.moves(problem, plan):
        for name, varied in _points(move, max_sweep):
            yield Draft(recipe.render(problem, varied), name, move.why)


def crossings(problem: Problem, first: str, second: str) -> Iterator[Draft]:
    """Kernels of one recipe between two: the first one's knobs, with ever more of those in which the second differs."""
    ours, theirs = planned(first), planned(second)
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


def _points(move: Move, max_sweep: int) -> Iterator[tuple[str, Plan]]:
    """The move's own plan, then those of its sweep, each with a name that tells it from the others."""
    yield move.name, move.plan
    values = within(move.sweep, move.plan, max_sweep) if move.sweep else {}
    own = tuple(move.plan.knobs[knob] for knob in values)
    for point in product(*((move.plan.knobs[knob], *choices) for knob, choices in values.items())):
        if point != own:
            said = ", ".join(f"{knob} {value}" for knob, value in zip(values, point, strict=True))
            yield f"{move.name}: {said}", move.plan.with_knobs(**dict(zip(values, point, strict=True)))
