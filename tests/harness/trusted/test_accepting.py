"""How whole models are accepted: in which form, in how many rounds, and what models too large for float64 meet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from harness.nouns.acceptance import Acceptance, Inside
from harness.nouns.model_budget import FEWEST_ROUNDS
from harness.trusted.models import accepting, holding
from harness.trusted.models.footprint import most
from harness.trusted.models.holding import ENOUGH_ROUNDS, call_by_turns, ratio
from harness.trusted.models.whole_compiled import CompiledWhole
from harness.trusted.reference import Reference

TRIES = 1000
SOURCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)


def get_inputs():
    return [torch.randn(8, 16)]
"""


def oracle() -> str:
    """What the outputs of the small model are held against."""
    reference = Reference(SOURCE, "model")
    inputs = reference.inputs(0)
    eager = reference.run(inputs)
    exact, said = holding._oracle(SimpleNamespace(reference=reference), inputs, eager)  # type: ignore[arg-type]
    assert (exact is eager) == (said != "float64")
    return said


def test_where_float64_hasno_room_eager_is_the_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise torch.OutOfMemoryError("no room")

    assert oracle() == "float64"
    with monkeypatch.context() as little:
        little.setattr(holding, "free_bytes", lambda _: 4 * 8 * 16)
        assert oracle() == holding.TOO_LARGE, "told by the sizes"
    monkeypatch.setattr(holding.Oracle, "run", full)
    assert oracle() == holding.TOO_LARGE, "found when it was tried"


def test_a_peak_is_the_most_that_was_held_at_one_time() -> None:
    assert most([4, 4, -8, 6, 1, -7]) == 8
    assert most([-3, 2]) == 0, "what was given back was held before"


@pytest.mark.parametrize("rounds", range(FEWEST_ROUNDS, ENOUGH_ROUNDS))
@pytest.mark.parametrize("heavy", [False, True])
def test_an_interval_of_few_rounds_holds_the_true_ratio_at_its_rate(rounds: int, *, heavy: bool) -> None:
    """Both sides take equally long; with `heavy` noise one call in five is disturbed, by up to several times."""
    drawn = np.random.default_rng(rounds)

    def times() -> list[float]:
        noise = drawn.normal(1.0, 0.05, rounds)
        disturbed = drawn.random(rounds) < (0.2 if heavy else 0.0)
        return [*np.abs(noise) * (1.0 + disturbed * drawn.exponential(3.0, rounds))]

    held = sum(interval.low <= 1.0 <= interval.high for _, interval in (ratio(times(), times()) for _ in range(TRIES)))
    assert held / TRIES >= 0.95 - 3 * (0.95 * 0.05 / TRIES) ** 0.5


def test_however_little_time_there_is_the_rounds_give_an_interval() -> None:
    device: Any = SimpleNamespace(finish=lambda: None)
    times = call_by_turns({"one": lambda: None, "other": lambda: None}, device, -5.0)
    assert {name: len(each) for name, each in times.items()} == {"one": FEWEST_ROUNDS, "other": FEWEST_ROUNDS}


def accepted(
    monkeypatch: pytest.MonkeyPatch, base: CompiledWhole, *inside: Inside, form: str = "compiled"
) -> Acceptance:
    within = Acceptance(accepted=False, reason="inside", form="compiled", regions=inside)
    monkeypatch.setattr(accepting, "accept_inside", lambda *_: within)
    monkeypatch.setattr(accepting, "_accept", lambda *_: Acceptance(accepted=True, form="assembled"))
    whole: Any = SimpleNamespace(job=SimpleNamespace(form=form, within="default"))
    return accepting._accept_in_form(whole, [base])


def test_kernels_are_tried_inside_what_torch_compile_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    base = CompiledWhole("default", lambda: None)
    tried = Inside(name="one", places=2, dropped="no gain is shown inside the compiled model")
    assert accepted(monkeypatch, base, tried, Inside(name="two", places=0, dropped="nowhere")).reason == "inside"
    assert accepted(monkeypatch, base).reason == "inside", "no kernel won by itself"
    assert accepted(monkeypatch, base, tried, form="assembled").form == "assembled"


def test_a_model_that_torch_compile_cannot_compile_is_assembled_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    found = accepted(monkeypatch, CompiledWhole("default", failure="Unsupported: a graph break"))
    assert (found.form, found.accepted) == ("assembled", True)
    assert found.instead == "torch.compile did not compile the model: Unsupported: a graph break"


def test_where_kernels_find_no_place_in_its_graph_the_model_is_assembled(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = Inside(name="one", places=0, dropped="torch 9.9 has moved names that kernels are placed by")
    found = accepted(monkeypatch, CompiledWhole("default", lambda: None), nowhere)
    assert found.form == "assembled"
    assert "torch 9.9 has moved names" in found.instead
