"""Cross entropy of long rows: the rows' numbers by the rows' schedule, the picked classes by loops, emulated."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from emulated import emulated
from goldens import Golden
from gpu_kernels import traced
from traced import Compiler, assert_close, call, trace

from knowledge.compiler.plan import Plan
from knowledge.compiler.schedule.parts import row_losses
from knowledge.compiler.search.first import first_draft

torch.manual_seed(7)
Inputs = list[torch.Tensor]
CLASSES = 1288
LABELS = torch.randint(0, CLASSES, (5,))
LABELS[2] = -100


def widened(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x.float(), t)


def scaled(x: torch.Tensor, t: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x * 0.5, t, weight=w, reduction="sum") + 1


def each(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x, t, reduction="none", ignore_index=3)


CASES: dict[str, tuple[Callable[..., torch.Tensor], Inputs]] = {
    "in float32 from bfloat16": (widened, [torch.randn(5, CLASSES).bfloat16() * 8, LABELS]),
    "small losses among large scores": (widened, [torch.randn(5, CLASSES).bfloat16() + 3e4, LABELS]),
    "weights by class, scaled": (scaled, [torch.randn(5, CLASSES), LABELS, torch.rand(CLASSES)]),
    "each row's, an odd width": (each, [torch.randn(4, 1031), torch.tensor([0, 3, 1030, 5])]),
}


@pytest.fixture(autouse=True)
def _few_scores_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_losses, "MANY_SCORES", 1)


@pytest.mark.parametrize("name", CASES)
def test_emulated_kernels_are_as_right_as_torch(name: str, golden: Golden, compiler: Compiler) -> None:
    function, given = CASES[name]
    problem = traced(function, *given)
    draft = first_draft(problem)
    assert "row loss" in draft.why
    text = emulated(draft.source)
    if golden.holds([text], *compiler.flags):
        return
    (got,) = call(compiler.build(text), problem, given)
    exact = function(*(each.double() if each.is_floating_point() else each for each in given))
    assert_close(got, function(*given), exact, name)


def test_rows_are_read_once_and_moves_reach_them() -> None:
    draft = first_draft(traced(widened, *CASES["in float32 from bfloat16"][1]))
    plan = Plan.read(draft.source)
    assert plan is not None and plan.knobs["1.keep"] == 1 and "part2::run" in draft.source


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), [torch.randn(5, CLASSES), LABELS]),
        (F.cross_entropy, [torch.randn(5, 512), torch.randint(0, 512, (5,))]),
        (F.cross_entropy, [torch.randn(5, CLASSES), torch.rand(5, CLASSES)]),
        (F.cross_entropy, [torch.randn(2, CLASSES, 3), torch.randint(0, CLASSES, (2, 3))]),
        (lambda x, w, t: F.cross_entropy(x @ w, t), [torch.randn(5, 64), torch.randn(64, CLASSES), LABELS]),
    ],
    ids=["smoothed", "short rows", "probabilities", "images", "behind a product"],
)
def test_other_losses_are_left_to_others(function: Callable[..., torch.Tensor], given: Inputs) -> None:
    recipe = row_losses.RowLossRecipe()
    assert not isinstance(recipe.first_plan(traced(function, *given)), Plan)


def test_a_processor_keeps_its_loops() -> None:
    assert not isinstance(
        row_losses.RowLossRecipe().first_plan(trace(widened, *CASES["in float32 from bfloat16"][1])), Plan
    )


def test_a_loss_of_few_scores_is_left_to_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_losses, "MANY_SCORES", 4 << 20)
    given = [torch.randn(5, CLASSES + 8), LABELS]
    assert not isinstance(row_losses.RowLossRecipe().first_plan(traced(F.cross_entropy, *given)), Plan)
