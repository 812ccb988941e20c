"""Random forwards through every schedule that takes them: the kernels compile, and compute what torch does."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from emulated import emulated
from gpu_kernels import A100
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from test_random_programs import Drawn, programs
from traced import MACHINE, Compiler, call, scaled_error, trace

from knowledge.compiler.plan import Decline, settled
from knowledge.compiler.problem import Problem
from knowledge.compiler.search.recipes import recipes_for

# Forwards that are compiled together: most of a library's time goes into what all kernels include.
TOGETHER = 3
Program = tuple[Drawn, torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Written:
    """A kernel: the forward it is for, who wrote it, and its source as a processor runs it."""

    program: Program
    problem: Problem
    name: str
    source: str


def written(program: Program, target: str, turn: int) -> list[Written]:
    """By each recipe that takes a forward: its first kernel, and what one of its moves makes of that."""
    problem = trace(*program, device=MACHINE if target == "cpu" else A100).model_copy(update={"target": target})
    found = []
    for recipe in recipes_for(problem):
        if isinstance(plan := recipe.first_plan(problem), Decline):
            continue
        begun, _ = settled(recipe, problem, plan)
        moves = recipe.moves(problem, begun)
        for each in (begun, *([moves[turn % len(moves)].plan] if moves else ())):
            text = recipe.render(problem, each)
            found.append(Written(program, problem, f"{each}", text if target == "cpu" else emulated(text)))
        event(f"{target}: {recipe.name}")
    return found


# A failure is not made smaller: that takes a compilation a step.
@pytest.mark.slow
@settings(
    max_examples=settings().max_examples // 50, phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(st.lists(programs(), min_size=TOGETHER, max_size=TOGETHER), st.sampled_from(("cpu", "cuda")), st.integers(0, 6))
def test_every_schedule_computes_what_torch_does(
    compiler: Compiler, drawn: list[Program], target: str, turn: int
) -> None:
    """For GPUs on the processor that `emulated.py` makes one of it."""
    kernels = [each for program in drawn for each in written(program, target, turn)]
    for each, kernel in zip(kernels, compiler.build_all([each.source for each in kernels]), strict=True):
        module, x, y = each.program
        made = call(kernel, each.problem, (x, y))
        for got, wanted, oracle in zip(made, module(x, y), module(x.double(), y.double()), strict=True):
            assert scaled_error(got, oracle) <= 4 * scaled_error(wanted, oracle) + 1e-6, each.name
