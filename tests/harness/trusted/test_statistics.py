"""Medians with their intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.nouns.verdict import outcome_of
from harness.trusted.timing.statistics import faster_half_ratio, median_ratio


def test_a_constant_ratio_has_no_width():
    ratio, interval = median_ratio([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert (ratio, interval.low, interval.high) == (2.0, 2.0, 2.0)


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


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=1, max_size=12), st.floats(0.2, 5))
def test_the_faster_halves_ratio_lies_in_its_interval_and_follows_the_times(pairs, factor):
    theirs, ours = map(list, zip(*pairs, strict=True))
    ratio, interval = faster_half_ratio(theirs, ours)
    assert interval.low <= ratio * (1 + 1e-9)
    assert ratio <= interval.high * (1 + 1e-9)
    scaled, _ = faster_half_ratio([factor * each for each in theirs], ours)
    assert scaled == pytest.approx(factor * ratio)
    back, mirrored = faster_half_ratio(ours, theirs)
    assert back * ratio == pytest.approx(1)
    assert mirrored.low * interval.high == pytest.approx(1, rel=5e-3)


def test_slow_rounds_move_nothing_as_long_as_they_are_the_fewer_ones():
    ours, theirs = [1.0, 1.01, 1.02, 1.03, 1.01, 1.0, 1.02, 1.0, 1.01], [1.3 + 0.01 * turn for turn in range(9)]
    calm, _ = faster_half_ratio(theirs, ours)
    ours[3] = ours[6] = theirs[8] = 50.0
    assert faster_half_ratio(theirs, ours)[0] == pytest.approx(calm)
    assert calm == pytest.approx(1.3, rel=0.02)


def test_who_is_fast_in_some_rounds_alone_does_not_win():
    """Ten times as fast in one round of ten, or in nearly half of them, and somewhat slower in the others."""
    for lucky in (0.1, 0.45):
        random = np.random.default_rng(3)
        ours = np.where(random.permutation(60) < 60 * lucky, 0.1, 1.1) * random.uniform(1, 1.05, 60)
        _, interval = faster_half_ratio(list(random.uniform(1, 1.05, 60)), list(ours))
        assert interval.low < 1


def disturbed(random, each, rounds, busy):
    """Times of a kernel beside neighbours: a share `busy` of its bursts waits for a core, the first time a slice, then
    more; and the memory that all share makes rounds slower and faster in common (given by the caller)."""
    waits = (random.random(rounds) < busy) * random.exponential(1.5, rounds)
    return each * (random.lognormal(0, 0.05, rounds) + waits)


def fought(random, gain, busy):
    weather = np.exp(np.cumsum(random.normal(0, 0.05, 120)))
    theirs, ours = gain * disturbed(random, 1, 120, busy) * weather, disturbed(random, 1, 120, busy) * weather
    for rounds in (8, 16, 32, 64, 120):  # as the clock looks at them
        outcome = outcome_of(faster_half_ratio(list(theirs[:rounds]), list(ours[:rounds]))[1], 1.0)
        if outcome != "undecided":
            break
    return outcome


@pytest.mark.parametrize("busy", [0.05, 0.6])
def test_beside_neighbours_a_gain_of_three_tenths_is_seen_and_equals_are_told_from_it(busy):
    random = np.random.default_rng(5)
    faster = [fought(random, 1.3, busy) for _ in range(20)]
    equal = [fought(random, 1.0, busy) for _ in range(20)]
    slower = [fought(random, 1 / 1.3, busy) for _ in range(10)]
    assert faster.count("faster") >= 19
    assert equal.count("faster") <= 1
    assert "faster" not in slower
