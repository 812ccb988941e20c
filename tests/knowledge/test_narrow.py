"""Narrow types: ten tasks chosen before the work, and every rounding of float8 as PyTorch casts."""

from __future__ import annotations

import pytest
import torch
from emulated import emulated
from goldens import Golden
from gpu_kernels import H200
from narrow import TEN
from test_ir_meaning import assert_means_the_same, oracle_of, outputs_of
from traced import Compiler, Kernel, assert_close, call, trace

from knowledge.compiler.plan import Draft, Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.loops.recipe import LoopsRecipe
from knowledge.compiler.search.first import first_draft
from knowledge.compiler.search.moves import mutations

TYPES = (torch.float8_e4m3fn, torch.float8_e5m2)


def posed(name: str, target: str) -> Problem:
    """A task's problem."""
    case = TEN[name]
    machine = {"device": H200} if target == "cuda" else {}
    return trace(case.function, *case.inputs, **machine).model_copy(update={"target": target})  # type: ignore[arg-type]


def first_of(problem: Problem) -> str:
    """The first kernel's source."""
    draft = first_draft(problem)
    assert isinstance(draft, Draft), draft
    return draft.source


def agrees(name: str, kernel: Kernel) -> None:
    """A compiled kernel gives PyTorch's results, those in float8 to the bit."""
    case = TEN[name]
    got = call(kernel, posed(name, "cpu"), case.inputs)
    for mine, theirs, oracle in zip(got, outputs_of(case.function(*case.inputs)), oracle_of(case), strict=True):
        assert_close(mine, theirs, oracle, name)


@pytest.mark.parametrize("name", TEN)
def test_a_task_means_what_pytorch_computes(name: str) -> None:
    assert_means_the_same(name, TEN[name])


def test_compiled_kernels_compute_what_pytorch_does(golden: Golden, compiler: Compiler) -> None:
    """First kernels, what each first move makes of them, the general loops, and a GPU's kernels on the processor."""
    sources: list[tuple[str, str]] = []
    for name in TEN:
        problem = posed(name, "cpu")
        first = first_of(problem)
        moved = [each.source for each in mutations(problem, first, 1)]
        loops = LoopsRecipe()
        written = [first, *moved, loops.render(problem, Plan("loops"))]
        written += [emulated(loops.render(posed(name, "cuda"), Plan("loops"))), emulated(first_of(posed(name, "cuda")))]
        sources += [(name, each) for each in dict.fromkeys(written)]
    if golden.holds([source for _, source in sources], *compiler.flags):
        return
    kernels = compiler.build_all([source for _, source in sources])
    for (name, _), kernel in zip(sources, kernels, strict=True):
        agrees(name, kernel)


def near_every_step(dtype: torch.dtype) -> torch.Tensor:
    """Every number of a type, what lies half way to the next, the floats beside those, and what is beyond."""
    numbers = torch.arange(127, dtype=torch.uint8).view(dtype).float()
    numbers = numbers[torch.isfinite(numbers)]
    middles = (numbers[1:] + numbers[:-1]) / 2
    last = numbers[-1:] + (numbers[-1:] - numbers[-2:-1]) * torch.tensor([0.5, 1.0, 2.0])
    some = torch.cat((numbers, middles, last, torch.tensor([1e30, torch.inf, 1e-30, 1e-42])))
    beside = [torch.nextafter(some, torch.tensor(end)) for end in (0.0, torch.inf)]
    sizes = torch.cat((some, *beside, torch.tensor([torch.nan])))
    return torch.cat((sizes, -sizes))


def narrowed(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(x.to(each) for each in TYPES)


def widened(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.float(), y.float()


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_casts_are_pytorch_s_to_the_bit(golden: Golden, compiler: Compiler, target: str) -> None:
    floats = torch.cat([*map(near_every_step, TYPES)])
    codes = torch.arange(256, dtype=torch.uint8)
    cases = [(narrowed, (floats,)), (widened, tuple(codes.view(each) for each in TYPES))]
    problems = [trace(function, *given).model_copy(update={"target": target}) for function, given in cases]
    recipes = [*map(first_of, problems), *(LoopsRecipe().render(each, Plan("loops")) for each in problems)]
    sources = [emulated(each) if target == "cuda" else each for each in recipes]
    if golden.holds(sources, *compiler.flags):
        return
    for (function, given), problem, kernel in zip(cases * 2, problems * 2, compiler.build_all(sources), strict=True):
        for mine, theirs in zip(call(kernel, problem, given), function(*given), strict=True):
            assert_close(mine, theirs, theirs.double(), target)


def test_what_is_too_large_is_nan_where_pytorch_has_nan_there(golden: Golden, compiler: Compiler) -> None:
    """PyTorch until 2.11 or so: whatever rounds to more than 448."""
    given = torch.tensor([448.0, 463.9, 464.0, 464.1, 480.0, 1e9, torch.inf, -500.0])
    problem = trace(lambda x: x.to(torch.float8_e4m3fn), given).model_copy(update={"saturates": False})
    source = first_of(problem)
    if not golden.holds([source], *compiler.flags):
        (got,) = call(compiler.build(source), problem, (given,))
        assert got.float().isnan().tolist() == [False] * 3 + [True] * 5 and (got[:3].float() == 448).all()
