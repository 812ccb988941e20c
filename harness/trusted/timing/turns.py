"""Sides by turns: whatever disturbs a machine for a while meets all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence


def in_turn(names: Sequence[str], number: int) -> list[str]:
    """The names in the order of a round: what one side leaves in the caches helps or harms each in turn."""
    first = number % len(names)
    return [*names[first:], *names[:first]]


def by_turns(
    sides: Mapping[str, Callable[[], float]],
    *,
    least: int,
    most: int,
    limit_s: float,
    after: Callable[[], object] = lambda: None,
) -> dict[str, list[float]]:
    """What each side says of itself, once a round: so many rounds at `least`, and others until `limit_s` is over.

    `after` is called behind each round.
    """
    found: dict[str, list[float]] = {name: [] for name in sides}
    began, rounds = time.perf_counter(), 0
    while rounds < least or (rounds < most and time.perf_counter() - began < limit_s):
        for name in in_turn([*sides], rounds):
            found[name].append(sides[name]())
        after()
        rounds += 1
    return found
