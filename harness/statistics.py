"""Medians and their uncertainty."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.verdict import Interval

RESAMPLES = 1000


def median_ratio(baseline: Sequence[float], candidate: Sequence[float], *, seed: int = 0) -> tuple[float, Interval]:
    """Median of the paired ratios baseline / candidate with its 95 % bootstrap interval.

    Pairs are resampled whole: both sides of a round saw the same weather on the machine. Needs at least one pair.
    """
    ratios = np.asarray(baseline, dtype=float) / np.asarray(candidate, dtype=float)
    drawn = np.random.default_rng(seed).choice(ratios, size=(RESAMPLES, ratios.size))
    low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
    return float(np.median(ratios)), Interval(low=float(low), high=float(high))
