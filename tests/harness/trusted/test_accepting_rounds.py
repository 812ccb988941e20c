"""Rounds of a comparison of whole models: how few there may be, and how much an interval of few says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.nouns.model_budget import FEWEST_ROUNDS
from harness.trusted.models.holding import ENOUGH_ROUNDS, call_by_turns, ratio

TRIES = 1000


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
