"""The playbook's front door: a first kernel for a problem, then one move at a time, or every kernel near one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from knowledge.compiler.lower.front import OPERATIONS
from knowledge.compiler.lower.lowering import WITHOUT_EFFECT, base_name
from knowledge.compiler.lower.rolling import Loop, rolled
from knowledge.compiler.plan import PLAN_MARK, Decline, Draft, Move, Plan, Recipe, settled, swept, within
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.attention.recipe import AttentionRecipe
from knowledge.compiler.schedule.gemm.recipe import GemmRecipe
from knowledge.compiler.schedule.loops.recipe import LoopsRecipe
from knowledge.compiler.schedule.narrow_weights import NarrowWeightsRecipe
from knowledge.compiler.schedule.pointwise.recipe import PointwiseRecipe
from knowledge.compiler.schedule.resizing import SizesRecipe
from knowledge.compiler.schedule.rows.recipe import RowRecipe
from knowledge.compiler.schedule.stages import StagesRecipe

HOW_TO_SET_A_MODEL = (
    "To have a language model write it, set one: --model openai:NAME with OPENAI_API_KEY, or with the base URL of a "
    "compatible server."
)
WHAT_IT_WRITES = (
    "It writes elementwise graphs, reductions along rows with elementwise steps around them (softmax, norms, sums, "
    "extrema), products of two matrices with what directly follows them, convolutions, pools, sums along the way, "
    "losses, attention, what cuts, joins and picks elements, and forwards that are several of these"
)


# Of what parts of rows read and write, what the compiler's loops must save: rows read in wider words, and have fewer
# launches, each as long as some megabytes take.
MUCH_LESS, LAUNCHES_OF_BYTES = 0.7, 16 << 20

MOST_CHARACTERS = 200_000
"""Of a kernel's source, as the agents' answers take it."""
MOST_OPERATIONS = 3000
"""Operations, loops counted once, whose source is longer for sure; to lower them takes half a minute."""

SINGLE: tuple[Recipe, ...] = (PointwiseRecipe(), RowRecipe(), GemmRecipe(), AttentionRecipe(), NarrowWeightsRecipe())


_OF_ONE_SIZE: tuple[Recipe, ...] = (*SINGLE, StagesRecipe(SINGLE), LoopsRecipe())


def recipes() -> tuple[Recipe, ...]:
    """All recipes, in the order in which they are tried."""
    return (*_OF_ONE_SIZE, SizesRecipe(_OF_ONE_SIZE))


def recipes_for(problem: Problem) -> tuple[Recipe, ...]:
    """Those that write problems of one size, with loops over time, or of several sizes, in the order of their turns."""
    if problem.others:
        return recipes()[-1:]
    return _OF_ONE_SIZE[-1:] if any(isinstance(each, Loop) for each in rolled(problem)) else _OF_ONE_SIZE


def first_draft(problem: Problem) -> Draft | Decline:
    """The kernel of depth 0, by the first recipe that can write the problem: the plain one after its sure moves."""
    reason = ""
    if (left := len(rolled(problem))) > MOST_OPERATIONS:
        return Decline(_too_long(problem, f"{left} operations that no loop over steps holds"))
    for recipe in recipes_for(problem):
        plan = recipe.first_plan(problem)
        if isinstance(plan, Plan) and not _outdone(recipe, problem):
            plan, made = settled(recipe, problem, plan)
            what = f"with {', '.join(made)}" if made else "plain and correct"
            source = recipe.render(problem, plan)
            if len(source) > MOST_CHARACTERS:
                return Decline(_too_long(problem, f"{len(source):,} characters of source"))
            return Draft(source, "first kernel", f"{what}, by the {recipe.name} recipe")
        reason = plan.reason.rstrip(".") if isinstance(plan, Decline) else reason
    return Decline(_refusal(problem, reason))


def more_exact(problem: Problem, source: str) -> str | None:
    """The kernel `source` with float32's accuracy where it multiplies in TF32; None where it does not."""
    plan = Plan.read(source)
    after = plan.more_exact if plan is not None else None
    recipe = next((each for each in recipes() if after is not None and each.name == after.recipe), None)
    return recipe.render(problem, after) if after is not None and recipe is not None else None


def _outdone(recipe: Recipe, problem: Problem) -> bool:
    """Whether the compiler's loops need much less memory traffic than parts between which everything lies in memory."""
    if not isinstance(recipe, StagesRecipe) or not problem.on_gpu:
        return False
    parts, loops = recipe.nbytes(problem), LoopsRecipe()
    if parts is None or parts < LAUNCHES_OF_BYTES or isinstance(loops.first_plan(problem), Decline):
        return False
    mine = loops.nbytes(problem)
    return mine < MUCH_LESS * parts and parts - mine >= LAUNCHES_OF_BYTES


def next_draft(
    problem: Problem, source: str, tried: tuple[str, ...], bottleneck: str | None = None, *, max_sweep: int = 12
) -> Draft | Decline:
    """The kernel after the first move that is not among `tried` (moves from this very kernel that did not help).

    Where a profile tells the `bottleneck`, the moves against it come first, else in the recipe's own order. A sweep
    has at most `max_sweep` variants. What would change nothing but the plan's own line is no move: of kernels in parts
    nothing is swept, and a part's sweep may have had no more to it.
    """
    plan = Plan.read(source)
    recipe = next((each for each in recipes() if plan is not None and each.name == plan.recipe), None)
    if plan is None or recipe is None:
        return Decline(f"The playbook optimizes only kernels that it wrote. {HOW_TO_SET_A_MODEL}")
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


def writable_ops() -> tuple[str, ...]:
    """The aten operations, without overloads, that some recipe can write."""
    return tuple(sorted(OPERATIONS))


def _refusal(problem: Problem, reason: str) -> str:
    """Names the operations that no recipe knows; where all are known, what the last recipe, for several parts, says."""
    unknown = dict.fromkeys(op.target for op in problem.ops if not _known(base_name(op.target)))
    what = ", ".join(unknown) or reason
    return (
        f"The playbook cannot write {what}. {WHAT_IT_WRITES} ({len(writable_ops())} operations). {HOW_TO_SET_A_MODEL}"
    )


def _too_long(problem: Problem, what: str) -> str:
    """Why a forward has no kernel of its own: what its source would take, and what stands in the way of less."""
    return (
        f"The playbook cannot write this forward as one kernel: its {len(problem.ops)} operations would take {what}, "
        f"of which a kernel has at most {MOST_CHARACTERS:,} characters. A Python loop becomes one step if each "
        "iteration is the same operations, of equal shapes, on what the iteration before made and on the next element "
        f"of a tensor; else cut the module into parts. {HOW_TO_SET_A_MODEL}"
    )


def _known(name: str) -> bool:
    return bool({name, name.removesuffix("_")} & {*writable_ops(), *WITHOUT_EFFECT})


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
