"""How often a forward is lowered on the way to its first kernel, however many recipes look at it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from gpu_kernels import traced

from knowledge.compiler.lower import front, lowering
from knowledge.compiler.lower.rolling import Loop, rolled
from knowledge.compiler.plan import Draft
from knowledge.compiler.problem import Op, Problem
from knowledge.compiler.schedule.loops import recipe as loops
from knowledge.compiler.search.first import first_draft
from knowledge.compiler.search.recipes import recipes_for


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.mT * 0.125, -1) @ v


FORWARDS: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "product": (lambda a, b: a @ b, (torch.ones(37, 41), torch.ones(41, 43))),
    "attention": (attention, (torch.ones(2, 37, 64),) * 3),
    "pointwise": (lambda x: torch.tanh(x) + 1, (torch.ones(37, 41),)),
}


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[Problem]:
    """Every problem that is lowered, as often as it is."""
    seen: list[Problem] = []

    def counting(problem: Problem) -> Sequence[Op | Loop]:
        seen.append(problem)
        return rolled(problem)

    monkeypatch.setattr(lowering, "rolled", counting)
    return seen


@pytest.mark.parametrize("target", ["cuda", "cpu"])
@pytest.mark.parametrize("name", FORWARDS)
def test_a_forward_is_lowered_once(lowered: list[Problem], name: str, target: str) -> None:
    """For all recipes: strides, products, attention and loops are read off the same values."""
    function, inputs = FORWARDS[name]
    problem = traced(function, *inputs).model_copy(update={"target": target})
    for recipe in recipes_for(problem):
        recipe.first_plan(problem)
    first_draft(problem)
    assert lowered.count(problem) == 1


@pytest.mark.parametrize("target", ["cuda", "cpu"])
def test_the_way_to_a_text_passes_each_room_once_and_downwards(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowered, fused, laid out as loops, written: no room is asked again for what it made, and none by a later one."""
    passed: list[str] = []

    def watched(place: object, name: str) -> None:
        function = getattr(place, name)

        def watching(*args: object, **kwargs: object) -> object:
            made = function(*args, **kwargs)
            passed.append(name)
            return made

        monkeypatch.setattr(place, name, watching)

    for place, name in ((front, "lower"), (loops, "fused"), (loops, "laid_out"), (loops.File, "text")):
        watched(place, name)
    problem = traced(lambda x: torch.cumsum(x, 1), torch.ones(31, 47)).model_copy(update={"target": target})
    draft = first_draft(problem)
    assert isinstance(draft, Draft)
    assert passed == ["lower", "fused", "laid_out", "text"]
