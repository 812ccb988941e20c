"""Models that are larger than the memory in float64, and the peaks that are told of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.trusted.models import holding
from harness.trusted.models.footprint import most
from harness.trusted.reference import Reference

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
