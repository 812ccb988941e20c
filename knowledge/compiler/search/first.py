"""The first kernel for a problem, or why the playbook has none."""

from __future__ import annotations

from knowledge.compiler.ir.cost import LAUNCHES_OF_BYTES
from knowledge.compiler.lower.front import OPERATIONS
from knowledge.compiler.lower.lowering import WITHOUT_EFFECT
from knowledge.compiler.lower.rolling import rolled
from knowledge.compiler.plan import MOST_CHARACTERS, Decline, Draft, Plan, Recipe, settled
from knowledge.compiler.problem import Problem, base_name
from knowledge.compiler.schedule.loops.placewise import multiplies
from knowledge.compiler.schedule.loops.recipe import LoopsRecipe, compiled
from knowledge.compiler.schedule.parts.stages import StagesRecipe
from knowledge.compiler.schedule.rows.recipe import RowRecipe
from knowledge.compiler.search.recipes import recipes_for

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
# launches.
MUCH_LESS = 0.7

FIRST_CACHE = 32 << 10
"""Bytes that a processor's core keeps: what parts read of each other there costs next to nothing."""
MOST_OPERATIONS = 3000
"""Operations, loops counted once, whose source is longer for sure; to lower them takes half a minute."""


def first_draft(problem: Problem) -> Draft | Decline:
    """The kernel of depth 0, by the first recipe that can write the problem: the plain one after its sure moves.

    A recipe whose source would be too long leaves the turn to the next one.
    """
    reason = long = ""
    if (left := len(rolled(problem))) > MOST_OPERATIONS:
        return Decline(_too_long(problem, f"{left} operations that no loop over steps holds"))
    for recipe in recipes_for(problem):
        plan = recipe.first_plan(problem)
        if isinstance(plan, Plan) and not _outdone(recipe, problem):
            plan, made = settled(recipe, problem, plan)
            what = f"with {', '.join(made)}" if made else "plain and correct"
            source = recipe.render(problem, plan)
            if len(source) <= MOST_CHARACTERS:
                return Draft(source, "first kernel", f"{what}, by the {recipe.name} recipe")
            long = _too_long(problem, f"{len(source):,} characters of source")
        reason = plan.reason.rstrip(".") if isinstance(plan, Decline) else reason
    return Decline(long or _refusal(problem, reason))


def _outdone(recipe: Recipe, problem: Problem) -> bool:
    """Whether the compiler's loops write something better.

    That is in much less memory traffic than parts between which everything lies in memory, or, on a processor, with
    rows in registers whose columns lie apart. A processor's loops read both factors of a product again for each few
    results: there products stay parts.
    """
    loops, least = LoopsRecipe(), LAUNCHES_OF_BYTES if problem.on_gpu else FIRST_CACHE
    apart = not problem.on_gpu and _apart(recipe, problem)
    parts = (recipe.nbytes(problem) if isinstance(recipe, StagesRecipe) else None) or 0
    if not (apart or parts >= least) or isinstance(loops.first_plan(problem), Decline):
        return False
    if not problem.on_gpu and any(map(multiplies, compiled(problem).fused.kernels)):
        return False
    mine = loops.nbytes(problem)
    return apart or (mine < MUCH_LESS * parts and parts - mine >= least)


def _apart(recipe: Recipe, problem: Problem) -> bool:
    """Whether it sums rows whose columns lie apart."""
    if isinstance(recipe, StagesRecipe):
        return any(_apart(part.recipe, part.problem) for part in recipe.stages(problem).parts)
    return isinstance(recipe, RowRecipe) and recipe.steps_apart(problem)


def writable_ops() -> tuple[str, ...]:
    """The aten operations, without overloads, that some recipe can write."""
    return tuple(sorted(OPERATIONS))


def _refusal(problem: Problem, reason: str) -> str:
    """Names the operations that no recipe knows; where all are known, what the last recipe, for several parts, says."""
    unknown = dict.fromkeys(op.target for op in problem.ops if not _known(base_name(op.target)))
    what = ", ".join(unknown) or reason
    if any("int4pack" in each or "4bit" in each for each in unknown):
        what += (
            ": PyTorch documents no layout of the weights that it packs there; `packed & 15` and `packed >> 4` have one"
        )
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
