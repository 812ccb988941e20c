"""Tasks of models of today, written down as files before any was tried: what their values mean, and first kernels.

`cutegen suite tests/bench/held_out --target cpu --depth 0` has the judge call them right.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch
from drop_ins import described
from gpu_kernels import H200
from ir_evaluation import meaning
from test_traced_values import posed

from knowledge.compiler.lower.front import traced
from knowledge.compiler.plan import Draft
from knowledge.compiler.search.first import first_draft

FILES = sorted((Path(__file__).parents[1] / "bench" / "held_out").glob("*.py"))


def test_they_are_22() -> None:
    assert len(FILES) == 22


@pytest.mark.sampled(10)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_task_is_right_and_written_for_both_targets(file: Path) -> None:
    problem = posed(described(file.read_text(encoding="utf-8")))
    for target, device in (("cpu", problem.device), ("cuda", H200)):
        assert isinstance(first_draft(problem.model_copy(update={"target": target, "device": device})), Draft)
    made = runpy.run_path(str(file))
    torch.manual_seed(3)
    module, inputs = made["Model"]().requires_grad_(False), made["get_inputs"]()
    held = dict(module.named_parameters()) | dict(module.named_buffers())
    named = dict(zip((each.name for each in problem.inputs), inputs, strict=True)) | held
    named = {name: torch.view_as_real(each) if each.is_complex() else each for name, each in named.items()}
    wanted = module(*inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for found, eager in zip(meaning(problem, traced(problem), named), wanted, strict=True):
        torch.testing.assert_close(found, eager, atol=5e-5, rtol=1e-4)
