"""What the playbook would compute for a problem, whoever of its recipes takes it: no kernel is compiled."""

from __future__ import annotations

import torch
from evaluation import Values, evaluate, replayed
from ir_evaluation import meaning

from knowledge.compiler.passes.staging import staged
from knowledge.compiler.plan import Decline, Plan, Recipe
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.parts.stages import stages_of
from knowledge.compiler.schedule.strided_reading import lower_problem
from knowledge.compiler.search.recipes import SINGLE, recipes_for


def answer(problem: Problem, tensors: Values) -> list[torch.Tensor] | Decline:
    """What the first recipe that takes the problem makes of it, or why the last one does not."""
    for recipe in recipes_for(problem):
        plan = recipe.first_plan(problem)
        if isinstance(plan, Plan):
            return _by(recipe, problem, tensors)
    assert isinstance(plan, Decline)
    return plan


def _by(recipe: Recipe, problem: Problem, tensors: Values) -> list[torch.Tensor]:
    """By its expressions, or the compiler's; a product, which has none, by torch; several parts one after the other."""
    if recipe.name == "gemm":
        return replayed(problem, tensors)
    if recipe.name == "loops":
        return meaning(problem, staged(problem), tensors)
    if recipe.name != "stages":
        return evaluate(problem, lower_problem(problem), tensors)
    known = dict(tensors)
    for part in stages_of(problem, SINGLE).parts:
        given = {each.name: known[each.name] for each in (*part.problem.inputs, *part.problem.parameters)}
        made = _by(part.recipe, part.problem, given)
        known |= {each.name: value.contiguous() for each, value in zip(part.problem.outputs, made, strict=True)}
    return [known[output.name] for output in problem.outputs]
