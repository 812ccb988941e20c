"""Medians and their uncertainty; and which of two kernels is faster, on a machine that others use, too."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from harness.nouns.verdict import Interval

RESAMPLES = 1000
SWAPS = 1000
"""Random exchanges of the sides of pairs."""
TAIL = 0.0025
"""Of a head-to-head's interval, at either end. A head-to-head is looked at up to four times, each time with twice the
rounds: so an equal kernel is taken for a faster one in at most 1 % of them, however the noise is distributed."""
HALVINGS = 11
FEWEST, FEW = 5, 16
"""Pairs: fewer than the one say nothing, fewer than the other only what their extremes do."""
OPEN, MOST = 1.5, 0.95
"""Of the correlation of a round with the next: standard errors that are added to what was seen, and the largest."""
WIDEST = math.sqrt((1 + MOST) / (1 - MOST))
"""Times as far an interval reaches where nothing is known of that."""
SAME = 1e-12
ANYTHING = 1e6
"""A factor that too few pairs do not rule out."""

Floats = NDArray[np.float64]
Ahead = Callable[[Floats, Floats, NDArray[np.bool_]], Floats]
"""By how much we are faster than they, by logarithms, after each of these exchanges."""


def median_ratio(baseline: Sequence[float], candidate: Sequence[float], *, seed: int = 0) -> tuple[float, Interval]:
    """The baseline's median over the candidate's, with a 95 % bootstrap interval. Needs at least one pair.

    Pairs are resampled whole: both sides of a round saw the same weather on the machine. Rounds in a row that are
    alike count as fewer than they are (see `_widening`).
    """
    theirs, ours = np.asarray(baseline, dtype=float), np.asarray(candidate, dtype=float)
    found = float(np.log(np.median(theirs) / np.median(ours)))
    drawn = np.random.default_rng(seed).integers(0, ours.size, size=(RESAMPLES, ours.size))
    resampled = np.log(_medians(theirs[drawn]) / _medians(ours[drawn]))
    low, high = np.quantile(resampled, [0.025, 0.975])
    return float(np.exp(found)), _widened(found, float(low), float(high), _widening(np.log(theirs / ours)))


def faster_half_ratio(incumbent: Sequence[float], candidate: Sequence[float]) -> tuple[float, Interval]:
    """How much faster the candidate is in the faster half of its rounds, incumbent / candidate, with a 99.5 % interval.

    Other programs only ever make a burst longer, so what they do lies mostly in the slower half. The interval: see
    `_contest`.
    """
    return _contest(incumbent, candidate, _half_ahead, lambda theirs, ours: float(_faster(theirs) - _faster(ours)))


def ranked_ratio(incumbent: Sequence[float], candidate: Sequence[float]) -> tuple[float, Interval]:
    """How much faster the candidate is by the ranks of all rounds, incumbent / candidate, with a 99.5 % interval.

    The ratio is the median of those of any of their rounds to any of ours. For CPU time: where two processors share a
    core a burst takes up to twice as long while the other one computes. The times lie around two values then, in any
    mixture, and a quantile or a mean says which side had more of the better ones. Most pairs of like rounds tell the
    sides apart; the unlike ones come to as many on either side.
    """
    return _contest(incumbent, candidate, _ranks_ahead, lambda theirs, ours: float(np.median(theirs[:, None] - ours)))


def _contest(
    incumbent: Sequence[float], candidate: Sequence[float], ahead: Ahead, factor: Callable[[Floats, Floats], float]
) -> tuple[float, Interval]:
    """The ratio of two sides by the logarithm of its `factor`, and its interval by how far we are `ahead`.

    The interval holds the factors that exchanging the sides of random pairs does not rule out: were the kernels equal,
    either side of a pair could have been either one's. Where rounds in a row are alike it is wider (see `_widening`).
    It holds the median of the paired ratios as well, so that nothing wins which is slower in most rounds. Of fewer than
    16 pairs, as where a contest was cut short, it reaches six times as far as to where one side's slowest meets the
    other's fastest: a neighbour can have stayed with one side throughout. Fewer than 5 say nothing.
    """
    theirs, ours = np.log(np.asarray(incumbent, dtype=float)), np.log(np.asarray(candidate, dtype=float))
    if ours.size < FEWEST:
        ratio = float(np.exp(np.median(theirs - ours)))
        return ratio, Interval(low=ratio / ANYTHING, high=ratio * ANYTHING)
    found, median = factor(theirs, ours), float(np.median(theirs - ours))
    low, high = float(theirs.min() - ours.max()), float(theirs.max() - ours.min())
    if ours.size < FEW:
        return float(np.exp(found)), _widened(found, low, high, WIDEST)
    swapped = _swaps(ours.size)

    def faster_than(log_factor: float) -> bool:
        return _sure(ahead(theirs - log_factor, ours, swapped))

    def slower_than(log_factor: float) -> bool:
        return _sure(ahead(ours, theirs - log_factor, swapped))

    low, high = min(_edge(found, low, faster_than), median), max(_edge(found, high, slower_than), median)
    return float(np.exp(found)), _widened(found, low, high, _widening(theirs - ours))


def _medians(rows: Floats) -> Floats:
    """Each row's median. NumPy sorts rows of so few numbers in an eighth of the time in which it finds one place."""
    ordered, count = np.sort(rows, axis=-1), rows.shape[-1]
    middle: Floats = (ordered[..., (count - 1) // 2] + ordered[..., count // 2]) / 2
    return middle


def _widened(found: float, low: float, high: float, factor: float) -> Interval:
    """The interval of these logarithms, reaching so many times as far to either side."""
    low, high = found - factor * max(0.0, found - low), found + factor * max(0.0, high - found)
    return Interval(low=float(np.exp(low)), high=float(np.exp(high)))


def _widening(paired: Floats) -> float:
    """How much wider an interval is than that of as many independent pairs, by the logarithms of their ratios in order.

    Another program can share a core with one side for many rounds in a row: then the next round tells little new. Were
    each ratio `rho` times the one before and a remainder, the mean's deviation would be sqrt((1 + rho) / (1 - rho))
    times as large. `rho` is that of the ranks, which no outlier moves far, and what so few rounds leave open on top.
    """
    if paired.size < FEWEST or float(np.ptp(paired)) < SAME:
        return 1.0
    ranks = _ranks(paired) - (paired.size + 1) / 2
    rho = max(0.0, float(ranks[1:] @ ranks[:-1] / (ranks @ ranks))) + OPEN / math.sqrt(paired.size)
    return math.sqrt((1 + min(rho, MOST)) / (1 - min(rho, MOST)))


def _ranks(values: Floats) -> Floats:
    """Of each value its place in order, from 1 on; equal ones share theirs."""
    _, places, ties = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(ties) - (ties - 1) / 2)[places]
    return ranks


def _faster(logs: Floats) -> Floats:
    """The mean of the smaller half along the last axis."""
    smaller: Floats = np.sort(logs, axis=-1)[..., : (logs.shape[-1] + 1) // 2].mean(-1)  # as in `_medians`
    return smaller


def _half_ahead(theirs: Floats, ours: Floats, swapped: NDArray[np.bool_]) -> Floats:
    return _faster(np.where(swapped, ours, theirs)) - _faster(np.where(swapped, theirs, ours))


def _ranks_ahead(theirs: Floats, ours: Floats, swapped: NDArray[np.bool_]) -> Floats:
    """Exchanging sides moves no rank."""
    ranks = _ranks(np.concatenate([theirs, ours]))
    differences: Floats = np.where(swapped, -1.0, 1.0) @ (ranks[: theirs.size] - ranks[theirs.size :])
    return differences


def _swaps(pairs: int) -> NDArray[np.bool_]:
    """Which pairs to exchange, (exchanges, pairs); none of them first."""
    drawn = np.random.default_rng(0).random((SWAPS, pairs)) < 0.5
    drawn[0] = False
    return drawn


def _sure(ahead: Floats) -> bool:
    """Whether hardly any exchange would set us so far ahead as none, the first, does."""
    return float((ahead >= ahead[0] - SAME).mean()) <= TAIL


def _edge(inside: float, outside: float, ruled_out: Callable[[float], bool]) -> float:
    """Between a factor that is not ruled out and the outermost one, the first that is; the outermost where none is."""
    if not ruled_out(outside):
        return outside
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if ruled_out(middle) else (middle, outside)
    return outside
