"""Nothing that the playbook writes meets the judge's screen: every example of the repository, every move."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch
from traced import trace

from harness.screen.source import screen_source
from knowledge.playbook.author import first_draft, next_draft, recipes
from knowledge.playbook.problem import Device, Problem
from knowledge.playbook.recipe import Decline, Draft, Plan

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
DEVICES = (Device(threads=2, simd_floats=16, l3_bytes=64 << 10), Device(threads=1, simd_floats=4))


def sources(problem: Problem) -> list[str]:
    """The plain kernel, every first move by itself, what follows when every move is kept, and the first kernel."""
    found = ((recipe, recipe.first_plan(problem)) for recipe in recipes())
    recipe, plan = next((recipe, plan) for recipe, plan in found if isinstance(plan, Plan))
    plain = recipe.render(problem, plan)
    written, tried = [plain], ()
    while isinstance(following := next_draft(problem, plain, tried), Draft):
        written.append(following.source)
        tried = (*tried, following.move)
    source = plain
    while isinstance(draft := next_draft(problem, source, ()), Draft):
        written.append(source := draft.source)
    assert isinstance(draft, Decline)
    first = first_draft(problem)
    assert isinstance(first, Draft), first
    return [*written, first.source]


@pytest.mark.parametrize("device", DEVICES, ids=["wide", "narrow"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_pass_the_screen(example: Path, device: Device) -> None:
    module = runpy.run_path(str(example))
    model, inputs = module["Model"](*module["get_init_inputs"]()), module["get_inputs"]()
    written = sources(trace(model, *inputs, device=device))
    assert len(written) > 2
    for source in written:
        assert screen_source(source, frozenset({"float32", "ieee"})) is None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int32], ids=str)
def test_other_types_pass_too(dtype: torch.dtype) -> None:
    x = torch.ones(8, 40, dtype=dtype)
    first = first_draft(trace(lambda a: torch.clamp(a * 2 + a, 0, 3), x, device=DEVICES[0]))
    if isinstance(first, Draft):
        assert screen_source(first.source, frozenset({str(dtype).removeprefix("torch."), "ieee"})) is None
    else:
        assert dtype in (torch.float16, torch.bfloat16)
