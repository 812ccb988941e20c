"""How often intervals miss a ratio that is known, under noise as machines that others use, too, have it.

Each side's noise is its own, beside what both have in common. In the last two kinds a round tells of the next: another
program shares a core with one side for several rounds. These are what intervals over independent rounds miss.
"""

import math

import numpy as np
import pytest

from harness.nouns.verdict import outcome_of
from harness.trusted.timing.clock import DUEL_ROUNDS, GOAL, MAX_ROUNDS, MIN_ROUNDS
from harness.trusted.timing.statistics import faster_half_ratio, median_ratio, ranked_ratio

TRUE = 1.7
TIMES, DUELS = 200, 40


def calm(random, rounds):
    return random.normal(0, 0.02, rounds)


def heavy(random, rounds):
    return np.log1p(0.1 * random.pareto(1.2, rounds))


def bursts(random, rounds):
    return np.log1p((random.random(rounds) < 0.3) * random.exponential(1.5, rounds)) + random.normal(0, 0.05, rounds)


def alike(random, rounds):
    """Half of a round's deviation is the one before's."""
    found = [random.normal(0, 0.2)]
    for _ in range(rounds - 1):
        found.append(0.5 * found[-1] + random.normal(0, 0.2 * math.sqrt(0.75)))
    return np.array(found)


def neighbour(random, rounds):
    """Three rounds in a row, on average, take twice as long; ten do not."""
    found, there = [], random.random() < 0.25
    for _ in range(rounds):
        found.append(math.log(2) * there)
        there = random.random() < (0.7 if there else 0.1)
    return np.array(found) + random.normal(0, 0.05, rounds)


NOISE = {"calm": calm, "heavy": heavy, "bursts": bursts, "alike": alike, "neighbour": neighbour}


def sides(random, kind, rounds, gain):
    """The slower side's times and the faster one's; the machine drifts under both."""
    weather = np.cumsum(random.normal(0, 0.05, rounds))
    theirs, ours = NOISE[kind](random, rounds), NOISE[kind](random, rounds)
    return list(gain * np.exp(theirs + weather)), list(np.exp(ours + weather))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rounds", [16, 60])
@pytest.mark.parametrize("kind", NOISE)
def test_at_most_one_interval_in_twenty_misses_the_ratio(kind, rounds):
    random = np.random.default_rng(7)
    missed = 0
    for _ in range(TIMES):
        _, interval = median_ratio(*sides(random, kind, rounds, TRUE))
        missed += not interval.low <= TRUE <= interval.high
    assert missed <= 0.05 * TIMES


def until_narrow(random, kind):
    """The interval where rounds end as soon as it is narrow, which the clock asks after each of them."""
    theirs, ours = sides(random, kind, 40, TRUE)
    for rounds in range(MIN_ROUNDS, 41):
        speedup, interval = median_ratio(theirs[:rounds], ours[:rounds])
        if interval.high - interval.low <= 2 * GOAL * speedup:
            break
    return interval


def test_that_rounds_end_when_the_interval_is_narrow_makes_it_miss_no_more_often():
    random = np.random.default_rng(8)
    intervals = [until_narrow(random, "calm") for _ in range(60)]
    assert sum(not each.low <= TRUE <= each.high for each in intervals) <= 3


def duel(random, kind, gain):
    """As the clock looks at a duel, and where it ends."""
    theirs, ours = sides(random, kind, MAX_ROUNDS, gain)
    for rounds in (DUEL_ROUNDS, 2 * DUEL_ROUNDS, 4 * DUEL_ROUNDS, MAX_ROUNDS):
        _, interval = faster_half_ratio(theirs[:rounds], ours[:rounds])
        if outcome_of(interval, 1.0) != "undecided":
            break
    return interval


def stuck(random, rounds):
    """One side in four begins with both threads beside a neighbour on one processor, and keeps that place for long."""
    found, there = [], random.random() < 0.25
    for _ in range(rounds):
        found.append(math.log(1.6) * there)
        there = random.random() < (0.95 if there else 0.0167)
    return (
        np.array(found)
        + random.normal(0, 0.05, rounds)
        + (random.random(rounds) < 0.3) * random.exponential(0.5, rounds)
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("rounds", [5, 8, 12, 15])
@pytest.mark.parametrize("noise", [*NOISE.values(), stuck])
def test_a_duel_that_is_cut_short_tells_equal_kernels_apart_in_one_of_twenty_at_most(noise, rounds):
    random = np.random.default_rng(11)
    told = 0
    for _ in range(TIMES):
        weather = np.cumsum(random.normal(0, 0.05, rounds))
        theirs, ours = noise(random, rounds), noise(random, rounds)
        _, interval = faster_half_ratio(list(np.exp(theirs + weather)), list(np.exp(ours + weather)))
        told += not interval.low <= 1 <= interval.high
    assert told <= 0.05 * TIMES


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", NOISE)
def test_of_null_duels_at_most_one_in_twenty_says_otherwise_and_gains_are_still_seen(kind):
    random = np.random.default_rng(9)
    null = [duel(random, kind, 1.0) for _ in range(DUELS)]
    assert sum(not each.low <= 1 <= each.high for each in null) <= 0.05 * DUELS
    assert sum(duel(random, kind, TRUE).low > 1 for _ in range(10)) >= 9


def beside_busy_halves(random, rounds, idle):
    """CPU times of a burst where two processors share a core: twice as long unless the other one is idle, a share
    `idle` of all bursts."""
    return random.lognormal(0, 0.06, rounds) * np.where(random.random(rounds) < idle, 1.0, 2.1)


def decided_by_ranks(theirs, ours):
    """As the clock looks at rounds on one thread, at the least of them."""
    for rounds in (16, 32, 64):
        outcome = outcome_of(ranked_ratio(theirs[:rounds], ours[:rounds])[1], 1.0)
        if outcome != "undecided":
            break
    return outcome


@pytest.mark.sampled(4)
@pytest.mark.parametrize("idle", [0.05, 0.15, 0.3, 0.85])
def test_by_ranks_a_shared_core_hides_no_gain_and_makes_none(idle):
    random = np.random.default_rng(12)

    def sides_of(gain):
        return gain * beside_busy_halves(random, 64, idle), beside_busy_halves(random, 64, idle)

    assert [decided_by_ranks(*sides_of(1.0)) for _ in range(DUELS)].count("faster") <= 0.05 * DUELS
    assert [decided_by_ranks(*sides_of(1.12)) for _ in range(10)].count("faster") >= 9
