"""Medians with their intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.statistics import median_ratio


def test_a_constant_ratio_has_no_width():
    ratio, interval = median_ratio([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert (ratio, interval.low, interval.high) == (2.0, 2.0, 2.0)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    random = np.random.default_rng(1)
    covered = 0
    for trial in range(200):
        candidate = random.normal(1.0, 0.05, 40)
        baseline = random.normal(2.0, 0.10, 40)
        _, interval = median_ratio(list(baseline), list(candidate), seed=trial)
        covered += interval.low <= 2.0 <= interval.high
    assert covered >= 180


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=1, max_size=30))
def test_the_median_lies_within_its_interval(pairs):
    baseline, candidate = zip(*pairs, strict=True)
    ratio, interval = median_ratio(baseline, candidate)
    assert interval.low <= ratio * (1 + 1e-12)
    assert ratio <= interval.high * (1 + 1e-12)


def test_noise_in_common_cancels():
    weather = np.random.default_rng(2).uniform(1, 10, 50)
    ratio, interval = median_ratio(list(3 * weather), list(weather))
    assert ratio == pytest.approx(3.0)
    assert interval.high - interval.low < 1e-9
