"""How long two kernels go on against each other, and that nothing of the clock's care is lost meanwhile."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import numpy as np
import pytest
from python_kernels import bench_of, right, runner_of

from harness.nouns.task import Variant
from harness.trusted.link import CandidateFailedError, Spent
from harness.trusted.timing import clock
from harness.trusted.timing.bursts import Kernel, Pace
from harness.trusted.timing.clock import CANDIDATE, INCUMBENT, Incumbent, Rounds, time_by_turns
from harness.trusted.timing.duels import head_to_head
from harness.trusted.timing.timed_outputs import TimedOutputs


def idle_bench(**further):
    return SimpleNamespace(
        memory=SimpleNamespace(slots=1),
        arguments=SimpleNamespace(stir=lambda slot, numbered=False: None, manner="given"),
        reference=SimpleNamespace(variant=Variant()),
        **further,
    )


def rounds_of(gain, spread, seed=1):
    """Rounds of two sides that take random times, the same ones in whatever order they come."""
    ours, theirs = (np.random.default_rng((seed, side)) for side in range(2))
    bench = idle_bench()
    sides = {
        CANDIDATE: lambda turn: float(ours.lognormal(0, spread)),
        INCUMBENT: lambda turn: float(gain * theirs.lognormal(0, spread)),
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


class Told:
    """A runner of which the system tells what it spends on a call: computing, and waiting for a processor.

    On two threads they spin for each other, as long as they wait; on one they only compute. The system leaves it at
    `home`; the first processor takes a third longer for everything.
    """

    def __init__(self, cpu_s, waits, share=0.5, obeys=True, seed=3, home=1):
        self.home = self.place = home
        self.cpu_s, self.waits, self.share, self.obeys = cpu_s, waits, share, obeys
        self.random, self.threads, self.message_s, self.spent = np.random.default_rng(seed), 0, 0.001, None

    def have_threads(self, count):
        self.threads, self.place = count, self.home

    def run_alone_on(self, processor):
        self.threads, self.place = 1, processor

    def burst(self, turn):
        """One call: seconds by the clock."""
        computed = (1 if self.place else 4 / 3) * self.cpu_s * float(self.random.lognormal(0, 0.03))
        waited = self.waits * float(self.random.lognormal(0, 0.3))
        alone = self.threads == 1
        beside = computed * self.share * (not alone or not self.obeys)
        cpu_s = self.message_s + computed if alone else 2 * (computed + waited)
        self.spent = Spent(1, cpu_s, beside if alone else cpu_s * self.share, waited)
        return (computed if alone else computed * (1 - self.share)) + waited


def told_rounds(ours, theirs):
    bench = idle_bench(link=ours)
    sides = {CANDIDATE: ours.burst, INCUMBENT: theirs.burst}
    rounds = Rounds(bench, Pace(calls=1, timeout_s=1.0), sides, None, {CANDIDATE: ours, INCUMBENT: theirs})
    for _ in range(clock.MIN_ROUNDS):
        rounds.play([CANDIDATE, INCUMBENT])
    return rounds


def duel(ours, theirs):
    met = clock._fought_out("r", told_rounds(ours, theirs), 60.0)
    assert ours.threads == theirs.threads == 0, "teams are as they began"
    return met


def fought(ours, theirs):
    met = duel(ours, theirs)
    return met.outcome, met.measure


@pytest.mark.parametrize("seed", range(6))
def test_a_worse_place_for_a_whole_duel_makes_no_kernel_faster(seed):
    """One side's threads wait ten times as long as it computes, the other's hardly: wall times are 10x apart."""
    well, badly = Told(1.0, 0.1, seed=seed), Told(1.0, 10.0, seed=100 + seed)
    assert fought(well, badly) == ("not faster", "CPU time")
    well, badly = Told(1.0, 0.1, seed=seed), Told(1.0, 10.0, seed=100 + seed)
    assert fought(badly, well) == ("not faster", "CPU time")


@pytest.mark.parametrize("seed", range(6))
def test_a_slower_processor_makes_no_kernel_slower(seed, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    for home in (0, 1):
        ours, theirs = Told(1.0, 1.0, seed=seed, home=home), Told(1.0, 1.0, seed=50 + seed, home=1 - home)
        met = clock._fought_out("r", told_rounds(ours, theirs), 60.0)
        assert met.measure == "CPU time" and met.interval.low < 1 < met.interval.high
        assert (ours.place, theirs.place) == (home, 1 - home), "they may run anywhere again"


@pytest.mark.parametrize("seed", range(6))
def test_a_true_gain_is_kept_whichever_side_waits(seed):
    assert fought(Told(1.0, 10.0, seed=seed), Told(1.1, 0.1, seed=50 + seed)) == ("faster", "CPU time")
    assert fought(Told(1.0, 0.1, seed=seed), Told(1.1, 10.0, seed=50 + seed)) == ("faster", "CPU time")


def test_on_one_processor_cpu_time_decides(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    assert fought(Told(1.0, 3.0, share=0.0), Told(1.1, 0.3, share=0.0, seed=4)) == ("faster", "CPU time")


def test_where_nobody_waits_wall_time_decides_and_more_threads_win():
    assert fought(Told(1.0, 0.0), Told(1.1, 0.0, seed=4)) == ("faster", "wall time")
    assert fought(Told(1.0, 0.0, share=0.5), Told(1.0, 0.0, share=0.0, seed=4)) == ("faster", "wall time")


def test_what_uses_its_threads_otherwise_is_not_held_to_cpu_time():
    """It computes as much, or spins where it was asked for one thread: that says nothing of what a caller waits for."""
    threads = duel(Told(1.0, 3.0, share=0.5), Told(1.0, 3.0, share=0.0, seed=4))
    assert (threads.outcome, threads.measure) == ("undecided", "wall time")
    assert threads.within.endswith("), by wall time alone, because they use threads differently")
    own = duel(Told(1.0, 3.0, obeys=False), Told(1.1, 3.0, seed=4))
    assert (own.outcome, own.alone) == ("undecided", "one of them has threads of its own")
    assert duel(Told(1.0, 0.0, share=0.5), Told(1.0, 0.0, share=0.0, seed=4)).by == "", "it was decided"


def test_where_nothing_tells_cpu_time_wall_time_is_what_remains():
    met = clock._fought_out("r", rounds_of(1.0, 2.0), 60.0)
    assert (met.outcome, met.measure, met.by) == ("undecided", "wall time", "")


def test_a_gain_beyond_all_waiting_needs_no_cpu_time():
    rounds = told_rounds(Told(1.0, 0.5), Told(30.0, 0.5, seed=4))
    while len(rounds.samples[CANDIDATE]) < clock.DUEL_ROUNDS:
        rounds.play([CANDIDATE, INCUMBENT])
    met = head_to_head("r", rounds.taken[INCUMBENT], rounds.taken[CANDIDATE])
    assert (met.outcome, met.measure, met.by) == ("faster", "wall time", "")


def test_what_a_message_costs_is_no_part_of_a_kernel():
    quick, slow = Told(0.001, 10.0), Told(0.0011, 10.0, seed=4)
    quick.message_s = slow.message_s = 0.005
    met = clock._fought_out("r", told_rounds(quick, slow), 60.0)
    assert (met.outcome, met.speedup) == ("faster", pytest.approx(1.1, rel=0.05))
    assert met.by == ", by CPU time"


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
            bench.arguments.fill(slot, slot, "given")
        with runner_of(noisy(alternating()), beside, bench.arguments.numbers) as link:
            link.share(beside, bench.arguments.numbers)
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
