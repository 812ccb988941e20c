"""Linear recurrences in chunks mean the same as step by step, for either target; others stay as they are."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from emulated import emulated
from goldens import Golden
from gpu_kernels import H200
from ir_cases import Case
from ir_evaluation import meaning
from loops_over_time import selective_scan
from test_ir_meaning import oracle_of, outputs_of
from torch import Tensor
from traced import Compiler, assert_close, call, trace

from knowledge.compiler.ir.nodes import Value, values
from knowledge.compiler.ir.verify import verify
from knowledge.compiler.lower.front import traced
from knowledge.compiler.passes.chunking import chunked
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.loops.recipe import LoopsRecipe, compiled

STEPS = 50


def _rand(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape)))


def gated(x: Tensor, a: Tensor, begin: Tensor) -> tuple[Tensor, Tensor]:
    """All states and the last, from one that is given."""
    h, seen = begin, []
    for t in range(x.shape[1]):
        h = a[:, t] * h + (1 - a[:, t]) * x[:, t]
        seen.append(h)
    return torch.stack(seen, 1), h


def advantages(reward: Tensor, value: Tensor, ends: Tensor) -> Tensor:
    """Backwards, with a state that a mask sets back, and terms of the next step's value."""
    last, seen = torch.zeros_like(reward[:, 0]), []
    for t in reversed(range(reward.shape[1] - 1)):
        gap = reward[:, t] + 0.9 * value[:, t + 1] - value[:, t]
        last = gap + 0.855 * torch.where(ends[:, t] > 0.8, 0.0, last)
        seen.append(last)
    return torch.stack(seen[::-1], 1)


def two_states(x: Tensor, a: Tensor) -> Tensor:
    """What is read is the state before each step, and two are made beside each other."""
    one, other, seen = x.new_zeros(x[:, 0].shape), x.new_ones(x[:, 0].shape), []
    for t in range(x.shape[1]):
        seen.append((one - 2 * other).sum(-1))
        one, other = one * a[:, t] + x[:, t], (other - x[:, t]) / (1 + a[:, t])
    return torch.stack(seen, 1)


def squared(x: Tensor) -> Tensor:
    h, seen = x[:, 0], []
    for t in range(x.shape[1]):
        h = 0.3 * h * h + x[:, t]
        seen.append(h)
    return torch.stack(seen, 1)


def crossing(x: Tensor) -> Tensor:
    one, other = x[:, 0], x[:, 1]
    for t in range(x.shape[1]):
        one, other = 0.5 * other + x[:, t], 0.4 * one
    return one


def shifted(x: Tensor) -> Tensor:
    h = x[:, 0]
    for t in range(x.shape[1]):
        h = 0.5 * h.roll(1, -1) + x[:, t]
    return h


LINEAR = {
    "gated": Case(gated, (_rand(2, STEPS, 3), _rand(2, STEPS, 3), _rand(2, 3))),
    "advantages": Case(advantages, (_rand(3, STEPS), _rand(3, STEPS), _rand(3, STEPS))),
    "two states": Case(two_states, (_rand(2, STEPS, 3), _rand(2, STEPS, 3))),
    "selective scan": Case(selective_scan, (_rand(1, STEPS, 3), _rand(1, STEPS, 3), -_rand(3, 4), _rand(1, STEPS, 4))),
}
OTHERS = {name: Case(each, (_rand(2, STEPS, 4),)) for name, each in
          (("squared", squared), ("crossing", crossing), ("shifted", shifted))}  # fmt: skip
KNOWN = LINEAR | OTHERS


@cache
def posed(name: str, target: str = "cpu") -> Problem:
    case = KNOWN[name]
    machine = {"device": H200} if target == "cuda" else {}
    return trace(case.function, *case.inputs, **machine).model_copy(update={"target": target})  # type: ignore[arg-type]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("length", [4, 7, 16])
@pytest.mark.parametrize("name", LINEAR)
def test_chunks_mean_what_pytorch_computes(name: str, length: int) -> None:
    case, problem = LINEAR[name], posed(name)
    lowered = chunked(traced(problem), length)
    verify(node for _, node in lowered.outputs)
    found = values(*(node for _, node in lowered.outputs if isinstance(node, Value)))
    steps = {each.region.axis.extent for each in found if each.region}
    assert max(steps) <= max(length, -(-STEPS // length))
    given = {each.name: tensor for each, tensor in zip(problem.inputs, case.inputs, strict=True)}
    wanted = outputs_of(case.function(*case.inputs))
    for got, theirs, oracle in zip(meaning(problem, lowered, given), wanted, oracle_of(case), strict=True):
        assert_close(got, theirs, oracle, name)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_linear_in_its_own_place_stays_as_it_is(name: str) -> None:
    problem = posed(name)
    lowered = traced(problem)
    assert chunked(lowered, 8).outputs == lowered.outputs
    assert len(compiled(problem).loops) == 1 and not LoopsRecipe().moves(problem, Plan("loops"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_the_move_s_kernels_compute_what_pytorch_does(golden: Golden, compiler: Compiler, target: str) -> None:
    sources = []
    for name in LINEAR:
        problem = posed(name, target)
        (move,) = (each for each in LoopsRecipe().moves(problem, Plan("loops")) if each.name.startswith("chunks of 8"))
        source = LoopsRecipe().render(problem, move.plan)
        assert "step0w0 < 8" in source and "step0a0 < 7" in source
        sources.append(emulated(source) if target == "cuda" else source)
    if golden.holds(sources, *compiler.flags):
        return
    for (name, case), kernel in zip(LINEAR.items(), compiler.build_all(sources), strict=True):
        got = call(kernel, posed(name, target), case.inputs)
        for mine, theirs, oracle in zip(got, outputs_of(case.function(*case.inputs)), oracle_of(case), strict=True):
            assert_close(mine, theirs, oracle, name)
