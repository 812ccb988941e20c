"""Medians and their uncertainty; and which of two kernels is faster, on a machine that others use, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from harness.nouns.verdict import Interval

RESAMPLES = 1000
SWAPS = 1000
"""Random exchanges of the sides of pairs; of few pairs all exchanges are looked at."""
ALL_SWAPS_TO = 10
TAIL = 0.0025
"""Of a head-to-head's interval, at either end. A head-to-head is looked at up to five times, each time with twice the
rounds: so an equal kernel is taken for a faster one in at most 1.3 % of them, however the noise is distributed."""
HALVINGS = 11
FEWEST = 5
ANYTHING = 1e6
"""A factor that too few pairs do not rule out."""

Floats = NDArray[np.float64]


def median_ratio(baseline: Sequence[float], candidate: Sequence[float], *, seed: int = 0) -> tuple[float, Interval]:
    """Median of the paired ratios baseline / candidate with its 95 % bootstrap interval.

    Pairs are resampled whole: both sides of a round saw the same weather on the machine. Needs at least one pair.
    """
    ratios = np.asarray(baseline, dtype=float) / np.asarray(candidate, dtype=float)
    drawn = np.random.default_rng(seed).choice(ratios, size=(RESAMPLES, ratios.size))
    low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
    return float(np.median(ratios)), Interval(low=float(low), high=float(high))


def faster_half_ratio(incumbent: Sequence[float], candidate: Sequence[float]) -> tuple[float, Interval]:
    """How much faster the candidate is in the faster half of its rounds, incumbent / candidate, with a 99.5 % interval.

    Other programs only ever make a burst longer, so what they do lies mostly in the slower half. The interval holds
    the factors that exchanging the sides of random pairs does not rule out: were the kernels equal, either side of a
    pair could have been either one's. It holds the median of the paired ratios as well, so that nothing wins which is
    slower in most rounds. Of fewer than 8 pairs it ends where one side's slowest meets the other's fastest, and fewer
    than 5 say nothing (of 5 and 5 equal ones all lie in order once in 252 times).
    """
    theirs, ours = np.log(np.asarray(incumbent, dtype=float)), np.log(np.asarray(candidate, dtype=float))
    if ours.size < FEWEST:
        ratio = float(np.exp(np.median(theirs - ours)))
        return ratio, Interval(low=ratio / ANYTHING, high=ratio * ANYTHING)
    swapped = _swaps(ours.size)
    found, median = float(_faster_half(theirs) - _faster_half(ours)), float(np.median(theirs - ours))

    def faster_than(log_factor: float) -> bool:
        return _surely_faster(theirs - log_factor, ours, swapped)

    def slower_than(log_factor: float) -> bool:
        return _surely_faster(ours, theirs - log_factor, swapped)

    low = _edge(found, float(theirs.min() - ours.max()), faster_than)
    high = _edge(found, float(theirs.max() - ours.min()), slower_than)
    return float(np.exp(found)), Interval(low=float(np.exp(min(low, median))), high=float(np.exp(max(high, median))))


def _faster_half(logs: Floats) -> Floats:
    """The mean of the smaller half along the last axis."""
    half = (logs.shape[-1] + 1) // 2
    smaller: Floats = np.partition(logs, half - 1, axis=-1)[..., :half].mean(-1)
    return smaller


def _swaps(pairs: int) -> NDArray[np.bool_]:
    """Which pairs to exchange, (exchanges, pairs); none of them first."""
    if pairs <= ALL_SWAPS_TO:
        return np.array([*product((False, True), repeat=pairs)])
    drawn = np.random.default_rng(0).random((SWAPS, pairs)) < 0.5
    drawn[0] = False
    return drawn


def _surely_faster(theirs: Floats, ours: Floats, swapped: NDArray[np.bool_]) -> bool:
    """Whether hardly any exchange would set us so far ahead."""
    ahead = _faster_half(np.where(swapped, ours, theirs)) - _faster_half(np.where(swapped, theirs, ours))
    return float((ahead >= ahead[0] - 1e-12).mean()) <= TAIL


def _edge(inside: float, outside: float, ruled_out: Callable[[float], bool]) -> float:
    """Between a factor that is not ruled out and the outermost one, the first that is; the outermost where none is."""
    if not ruled_out(outside):
        return outside
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if ruled_out(middle) else (middle, outside)
    return outside
