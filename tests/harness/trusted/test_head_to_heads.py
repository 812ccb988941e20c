"""How long two kernels go on against each other, and that nothing of the clock's care is lost meanwhile."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest
from python_kernels import bench_of, right, runner_of

from harness.trusted.link import CandidateFailedError
from harness.trusted.timing import clock
from harness.trusted.timing.bursts import Kernel, Pace
from harness.trusted.timing.clock import CANDIDATE, INCUMBENT, Incumbent, Rounds, time_by_turns
from harness.trusted.timing.timed_outputs import TimedOutputs


def rounds_of(gain, spread, seed=1):
    """Rounds of two sides that take random times."""
    random = np.random.default_rng(seed)
    bench = SimpleNamespace(memory=SimpleNamespace(slots=1), stir=lambda slot, numbered=False: None, manner="given")
    sides = {
        CANDIDATE: lambda turn: float(random.lognormal(0, spread)),
        INCUMBENT: lambda turn: float(gain * random.lognormal(0, spread)),
    }
    rounds = Rounds(bench, Pace(calls=1, timeout_s=1.0), sides)
    for _ in range(clock.MIN_ROUNDS):
        rounds.play([CANDIDATE, INCUMBENT])
    return rounds


@pytest.mark.parametrize(("gain", "outcome"), [(1.3, "faster"), (1 / 1.3, "not faster"), (1.0, "not faster")])
def test_what_is_plain_at_once_needs_no_further_round(gain, outcome):
    head_to_head = clock._fought_out("r", rounds_of(gain, 0.005), 60.0)
    assert (head_to_head.outcome, head_to_head.rounds, head_to_head.incumbent) == (outcome, clock.DUEL_ROUNDS, "r")


def test_noisy_kernels_go_on_until_a_gain_is_sure():
    head_to_head = clock._fought_out("r", rounds_of(1.3, 0.3), 60.0)
    assert head_to_head.outcome == "faster"
    assert head_to_head.rounds in (32, 64, 120)
    assert clock._fought_out("r", rounds_of(1.02, 0.8), 60.0).outcome == "undecided"


def test_rounds_end_with_the_time_and_with_their_number():
    endless = clock._fought_out("r", rounds_of(1.0, 2.0), 60.0)
    assert (endless.outcome, endless.rounds) == ("undecided", clock.MAX_ROUNDS)


def test_only_a_hopeless_kernels_duel_is_cut_short_and_it_then_says_little():
    assert clock._fought_out("r", rounds_of(1.0, 2.0), 0.0).rounds == clock.DUEL_ROUNDS
    short = clock._fought_out("r", rounds_of(1.3, 0.1), 0.0, least=0)
    assert (short.rounds, short.outcome) == (clock.MIN_ROUNDS, "undecided")
    assert clock._fought_out("r", rounds_of(1 / 30, 0.1), 0.0, least=0).outcome == "not faster"


def test_beside_others_a_duel_lasts_longer_than_they_stay_with_one_side():
    rounds, began = rounds_of(1.3, 0.005), time.monotonic()
    play, rounds.play = rounds.play, lambda names: (time.sleep(0.02), play(names))
    assert clock._fought_out("r", rounds, 60.0, least_s=0.6).rounds > clock.DUEL_ROUNDS
    assert time.monotonic() - began >= 0.6


def noisy(times):
    def kernel(views, numbers):
        time.sleep(next(times))
        right(views, numbers)

    return kernel


def alternating():
    """Half of the calls take ten times as long, by chance."""
    random = np.random.default_rng(2)
    while True:
        yield float(random.choice([0.0005, 0.005]))


def met(kernel, limit_s):
    with bench_of(kernel) as bench:
        beside = bench.memory.beside()
        for slot in range(bench.memory.slots):
            bench.fill(slot, slot, "given")
        with runner_of(noisy(alternating()), beside, bench.numbers) as link:
            link.share(beside, bench.numbers)
            link.load("incumbent.so")
            incumbent = Incumbent("the incumbent", Kernel(link, beside))
            return time_by_turns(bench, Pace(2, 20.0), limit_s, TimedOutputs(bench, [1e-5]), incumbent=incumbent)


def test_a_long_duel_leaves_the_rest_of_the_timing_as_it_was():
    timing = met(noisy(alternating()), 0.001)
    assert timing.head_to_head.rounds >= timing.rounds == clock.MIN_ROUNDS
    longer = met(noisy(alternating()), 0.05)
    assert longer.head_to_head.rounds > longer.rounds


def test_who_computes_nothing_in_the_rounds_of_a_duel_is_refused():
    calls, times = [], alternating()

    def tires(views, numbers):
        calls.append(1)
        time.sleep(next(times))
        if len(calls) > 2 * (clock.MIN_ROUNDS + 1):
            views["y"].fill_(0)
        else:
            right(views, numbers)

    with pytest.raises(CandidateFailedError, match="y came out wrong"):
        met(tires, 0.001)
