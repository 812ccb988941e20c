"""A kernel that is many times slower than the reference holds the device for a few calls, and its verdict says so."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from python_kernels import JOB, bench_of, right

from harness.trusted.jobs import judging
from harness.trusted.timing import clock
from harness.trusted.timing.bursts import Pace
from harness.trusted.timing.clock import set_pace, time_by_turns
from harness.trusted.timing.timed_outputs import TimedOutputs

SLOW_S = 0.05


def slow(views, numbers):
    """Hundreds of times slower than eager's tens of microseconds."""
    time.sleep(SLOW_S)
    right(views, numbers)


def timed(bench):
    for slot in range(bench.memory.slots):
        bench.arguments.fill(slot, slot, "given")
    pace = set_pace(bench, 20.0)
    return pace, time_by_turns(bench, pace, 0.0, TimedOutputs(bench, [1e-5]))


def test_a_hopeless_kernel_is_called_a_few_times_and_said_to_be_one():
    calls = []

    def counted(views, numbers):
        calls.append(1)
        slow(views, numbers)

    with bench_of(counted, slots=64) as bench:
        pace, timing = timed(bench)
    assert (pace.hopeless, pace.calls) == (True, 1)
    assert pace.of_eager.calls > 1
    assert timing.rounds == clock.HOPELESS_ROUNDS
    assert len(calls) <= clock.HOPELESS_ROUNDS + 8 + 2 * clock.SOME
    assert timing.hopeless.endswith("times slower than eager PyTorch: timed in 5 rounds only")
    assert timing.hopeless in timing.noise
    assert timing.speedup_interval.low <= timing.speedup <= timing.speedup_interval.high <= 1 / clock.HOPELESS


def takes(single_s, in_bursts_s):
    return lambda slots: single_s if len(slots) == 1 else in_bursts_s * len(slots)


@pytest.mark.parametrize(
    ("single_s", "in_bursts_s", "usual_s", "hopeless"),
    [
        (1.6, 1.6, 0.003, True),
        (1.6, 1.6, 0.5, False),
        (0.02, 0.02, 0.0001, True),
        (0.02, 0.00001, 0.0001, False),  # a message waited
        (0.004, 0.004, 0.000001, False),  # slow, and holds nobody up
    ],
)
def test_what_is_hopeless(single_s, in_bursts_s, usual_s, hopeless):
    assert clock._hopeless(takes(single_s, in_bursts_s), lambda: usual_s, 32) is hopeless


def test_one_slow_call_is_no_hopeless_kernel():
    taken = iter([9.0, 9.0, 0.001])
    assert not clock._hopeless(lambda slots: next(taken), lambda: 0.1, 32)


def test_a_reference_that_was_lucky_once_makes_nobody_hopeless():
    usual = iter([0.0001, 0.0001, 0.002, *[0.0001] * 6])
    assert not clock._hopeless(takes(0.02, 0.02), lambda: next(usual), 32)


def test_rounds_end_early_where_each_takes_long(monkeypatch):
    monkeypatch.setattr(clock, "HOPELESS_S", 0.0)
    with bench_of(slow) as bench:
        assert timed(bench)[1].rounds == 2


@pytest.mark.parametrize(("ours", "theirs", "calls"), [(0.001, 9.0, 1), (9.0, 9.1, 50), (0.0001, 0.004, 50)])
def test_a_rival_that_is_far_slower_than_the_candidate_holds_nobody_up(monkeypatch, ours, theirs, calls):
    """Such a one is the first kernel of many a run: its bursts have one call then."""
    monkeypatch.setattr(clock, "kernel_burst", lambda *_: ours)
    link = SimpleNamespace(spent=None)
    bench = SimpleNamespace(link=link, memory=None)
    assert clock.pace_beside(bench, link, lambda one, at: theirs, Pace(50, 20.0)).calls == calls


def test_trials_end_when_a_hopeless_kernel_has_had_its_share():
    enough = judging._spent_enough
    assert not enough(SimpleNamespace(calling_s=9.0, called=2), 0.001)
    assert enough(SimpleNamespace(calling_s=11.0, called=2), 0.001)
    assert not enough(SimpleNamespace(calling_s=11.0, called=2), 0.5), "the reference takes long, too"


def test_how_many_trials_were_made_is_said(monkeypatch):
    monkeypatch.setattr(judging, "HOPELESS_TRIALS_S", 0.0)
    monkeypatch.setattr(judging, "HOPELESS", 0.0)  # of a reference that a busy machine makes slow, too
    with bench_of(slow) as bench:
        judging.check(bench, JOB, trials := [])
        timing = judging._timed(bench, JOB, 20.0, (None, None), trials)
        assert {each.reason for each in bench.untried} == {judging.TOO_SLOW}
    assert len(trials) == 1
    assert judging._hopeless(timing, trials).endswith("rounds only, after 1 trials")
    assert judging._hopeless(timing.model_copy(update={"hopeless": ""}), trials) == ""


def test_calls_and_their_time_are_counted():
    with bench_of(slow) as bench:
        with bench.link.running():
            bench.link.call([0, 1], 20.0)
            bench.link.call([], 20.0)
        assert bench.link.called == 2
        assert 2 * SLOW_S <= bench.link.calling_s < 5
