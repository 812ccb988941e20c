"""Nothing that the playbook writes meets the judge's screen: every example of the repository, every move."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from gpu_kernels import traced
from traced import trace

from harness.screen.source import screen_source
from knowledge.compiler.plan import Decline, Draft, Plan
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.pointwise.text import TILE
from knowledge.compiler.search.first import first_draft
from knowledge.compiler.search.moves import next_draft
from knowledge.compiler.search.recipes import recipes

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
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


@pytest.mark.sampled(3)
@pytest.mark.parametrize("device", DEVICES, ids=["wide", "narrow"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_pass_the_screen(example: Path, device: Device) -> None:
    module = runpy.run_path(str(example))
    model, inputs = module["Model"](*module["get_init_inputs"]()), module["get_inputs"]()
    written = sources(trace(model, *inputs, device=device))
    assert len(written) > 2
    for source in written:
        assert screen_source(source, frozenset({"float32", "ieee"})) is None


def test_the_demo_leaves_threads_and_their_shares_to_moves() -> None:
    """A curve that climbs needs moves that gain: two threads, then tiles that they share evenly."""
    name = re.search(r"optimize examples/(\w+)\.py", (ROOT / "Makefile").read_text(encoding="utf-8"))
    module = runpy.run_path(str(ROOT / "examples" / f"{name[1] if name else ''}.py"))
    model, inputs = module["Model"](*module["get_init_inputs"]()), module["get_inputs"]()
    problem = trace(model, *inputs, device=DEVICES[0])
    draft, made = first_draft(problem), []
    while isinstance(draft, Draft):
        made.append(draft.move)
        draft = next_draft(problem, draft.source, (), max_sweep=4)
    assert made == ["first kernel", "threads", "unroll", "tile size"]
    first_share, second_share = TILE * 2, inputs[0].numel() - 2 * TILE
    assert first_share > 2 * second_share > 0, "one thread has two of the usual tiles, the other less than one"


def _attention(q: torch.Tensor) -> torch.Tensor:
    return F.softmax(q @ q.transpose(-2, -1) / 8, -1) @ q


ON_GPUS = {
    "attention": (_attention, (2, 4, 128, 64)),
    "scan": (lambda x: x.cumsum(-1), (4, 4096)),
    "convolution": (lambda x: F.conv2d(x, x[:16, :, :3, :3]), (32, 16, 34, 34)),
    "product": (lambda x: F.gelu(x @ x), (256, 256)),
    "block": (lambda x: F.layer_norm(_attention(x), (64,)) @ x[0, 0, :64], (2, 4, 64, 64)),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ON_GPUS)
def test_kernels_for_gpus_pass_the_screen(name: str, dtype: torch.dtype) -> None:
    function, shape = ON_GPUS[name]
    problem = traced(function, torch.empty(shape, dtype=dtype, device="meta"))
    draft, tried = first_draft(problem), ()
    assert isinstance(draft, Draft), draft
    while isinstance(draft, Draft):
        assert screen_source(draft.source, frozenset({str(dtype).removeprefix("torch."), "ieee"})) is None, draft.move
        tried = (*tried, draft.move)
        draft = next_draft(problem, draft.source, tried)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int32], ids=str)
def test_other_types_pass_too(dtype: torch.dtype) -> None:
    x = torch.ones(8, 40, dtype=dtype)
    first = first_draft(trace(lambda a: torch.clamp(a * 2 + a, 0, 3), x, device=DEVICES[0]))
    if isinstance(first, Draft):
        assert screen_source(first.source, frozenset({str(dtype).removeprefix("torch."), "ieee"})) is None
    else:
        assert dtype in (torch.float16, torch.bfloat16)
