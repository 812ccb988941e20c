"""Every recipe, in the order of their turns."""

from __future__ import annotations

from knowledge.compiler.ir.dtypes import FLOAT8
from knowledge.compiler.lower.rolling import Loop, rolled
from knowledge.compiler.plan import Plan, Recipe
from knowledge.compiler.problem import Problem, Tensor
from knowledge.compiler.schedule.attention.recipe import AttentionRecipe
from knowledge.compiler.schedule.gemm.narrow_weights import NarrowWeightsRecipe
from knowledge.compiler.schedule.gemm.recipe import GemmRecipe
from knowledge.compiler.schedule.loops.recipe import LoopsRecipe
from knowledge.compiler.schedule.parts.resizing import SizesRecipe
from knowledge.compiler.schedule.parts.row_losses import RowLossRecipe
from knowledge.compiler.schedule.parts.stages import StagesRecipe
from knowledge.compiler.schedule.pointwise.recipe import PointwiseRecipe
from knowledge.compiler.schedule.rows.recipe import RowRecipe

SINGLE: tuple[Recipe, ...] = (PointwiseRecipe(), RowRecipe(), GemmRecipe(), AttentionRecipe(), NarrowWeightsRecipe())
_OF_ONE_SIZE: tuple[Recipe, ...] = (*SINGLE, RowLossRecipe(), StagesRecipe(SINGLE), LoopsRecipe())
_WITH_FLOAT8: tuple[Recipe, ...] = (*SINGLE[:2], LoopsRecipe())
"""The others' products and joints know elements of 16 bits and more."""


def recipes() -> tuple[Recipe, ...]:
    """All recipes, in the order in which they are tried."""
    return (*_OF_ONE_SIZE, SizesRecipe(_OF_ONE_SIZE))


def recipes_for(problem: Problem) -> tuple[Recipe, ...]:
    """Those that write problems of one size, with loops over time, or of several sizes, in the order of their turns."""
    if problem.others:
        return recipes()[-1:]
    if any(isinstance(each, Loop) for each in rolled(problem)):
        return _OF_ONE_SIZE[-1:]
    return _WITH_FLOAT8 if _has_float8(problem) else _OF_ONE_SIZE


def planned(source: str) -> tuple[Recipe, Plan] | None:
    """The recipe that wrote a kernel, and its plan; None where the playbook did not."""
    plan = Plan.read(source)
    recipe = next((each for each in recipes() if plan is not None and each.name == plan.recipe), None)
    return (recipe, plan) if plan is not None and recipe is not None else None


def _has_float8(problem: Problem) -> bool:
    made = (each for op in problem.ops for each in op.results)
    return any(isinstance(each, Tensor) and each.dtype in FLOAT8 for each in (*problem.arguments, *made))
