"""Whose turn it is, when rounds end, and what the clock will not be told."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_kernels import FailedError, bench_of, right, runner_of

from harness.nouns.task import Variant
from harness.nouns.verdict import Clocks, Conditions
from harness.trusted import link
from harness.trusted.arguments import Arguments
from harness.trusted.bench import Bench, MessageCost
from harness.trusted.jobs import judging
from harness.trusted.link import CandidateFailedError
from harness.trusted.timing import bursts, clock
from harness.trusted.timing.bursts import Kernel, Pace, message_cost
from harness.trusted.timing.clock import Incumbent, IncumbentFailedError, set_pace, time_by_turns
from harness.trusted.timing.compiled import CompiledReference
from harness.trusted.timing.neighbours import Reading
from harness.trusted.timing.timed_outputs import TimedOutputs
from harness.wire.telling import telling

PACE = Pace(calls=3, timeout_s=20.0)


@given(st.integers(2, 5))
def test_no_side_always_comes_after_the_same_other_one(idle, sides):
    """A fixed cycle gave every incumbent's burst eager's before it, and every candidate's the incumbent's."""
    names = [str(side) for side in range(sides)]
    rounds = clock.Rounds(idle, PACE, {name: lambda turn: 1.0 for name in names})
    orders = [rounds._order_of(names) for _ in range(400)]
    assert all(sorted(order) == names for order in orders)
    assert all(there == back[::-1] for there, back in zip(orders[::2], orders[1::2], strict=True))
    after = {pair for order in orders for pair in pairwise(order)}
    assert len(after) == sides * (sides - 1)


@given(st.integers(1, 40), st.data())
def test_bursts_take_the_slots_in_turn(slots, data):
    calls = data.draw(st.integers(1, slots))
    taken = [bursts.rotation(slots, calls, turn * calls) for turn in range(slots)]
    assert all(len(set(burst)) == calls for burst in taken)
    in_order = [slot for burst in taken for slot in burst]
    assert all(after == (before + 1) % slots for before, after in pairwise(in_order))
    assert in_order[0] == 0


def test_rounds_go_on_until_every_interval_is_narrow():
    """A hundredth of the speed-up to either side is narrow."""
    steady, noisy = [1.0] * 40, [1.0, 1.1] * 20
    assert clock.converged([steady, steady])
    assert clock.converged([steady, [3.0] * 40])
    assert not clock.converged([steady, noisy])
    assert not clock.converged([steady, steady, noisy])
    assert not clock.converged([noisy, steady])
    assert clock.converged([noisy, noisy])  # weather in common
    assert clock.converged([steady, [2.0, 2.03] * 20])
    assert not clock.converged([steady, [2.0, 2.05] * 20])


def test_conditions_become_a_range():
    assert clock._clocks([]) is None
    first, second = (
        Conditions(sm_mhz=10, memory_mhz=7, temperature_c=50),
        Conditions(sm_mhz=9, memory_mhz=8, temperature_c=60),
    )
    assert clock._clocks([first, second]) == Clocks(
        lowest=Conditions(sm_mhz=9, memory_mhz=7, temperature_c=50),
        highest=Conditions(sm_mhz=10, memory_mhz=8, temperature_c=60),
    )


@pytest.fixture(scope="module")
def idle() -> Iterator[Bench]:
    with bench_of(right, slots=1) as bench:
        yield bench


@given(each_s=st.floats(1e-7, 0.1), slots=st.integers(1, 256))
def test_a_burst_lasts_long_enough_as_far_as_there_are_slots(idle, each_s, slots):
    """The goal on a processor is 4 ms."""
    asked = []

    def seconds(burst):
        assert burst == list(range(len(burst)))
        asked.append(len(burst))
        return each_s * len(burst)

    idle.memory.views = idle.memory.views[:1] * slots
    calls = clock._calls_in_a_burst(idle, seconds)
    assert 1 <= calls <= slots
    assert calls == slots or calls * each_s >= 0.002 * (1 - 1e-9)
    assert calls == 1 or (calls - 1) * each_s < 0.004
    assert asked[0] == 1
    assert len(asked) < 10


def test_a_single_call_that_looked_long_is_tried_out(idle):
    looks = iter([1.0])
    idle.memory.views = idle.memory.views[:1] * 256
    calls = clock._calls_in_a_burst(idle, lambda burst: next(looks, 1e-4 * len(burst)))
    assert 20 <= calls <= 40


def timed(bench, pace=PACE, **others):
    outputs = TimedOutputs(bench, [1e-5])
    for slot in range(bench.memory.slots):
        bench.arguments.fill(slot, slot, "given")
    return time_by_turns(bench, pace, 0.0, outputs, **others), outputs


def test_rounds_are_timed_beside_eager():
    with bench_of(right) as bench:
        timing, outputs = timed(bench)
        assert timing.rounds == clock.MIN_ROUNDS
        assert timing.candidate_ms > 0
        assert timing.baseline_ms > 0
        assert timing.samples is not None
        assert median(timing.samples.candidate_ms) == pytest.approx(timing.candidate_ms, rel=1e-3)
        assert median(timing.samples.baseline_ms) == pytest.approx(timing.baseline_ms, rel=1e-3)
        low, high = timing.speedup_interval.low, timing.speedup_interval.high
        assert low <= timing.speedup <= high
        assert (timing.head_to_head, timing.compiled, timing.compiled_failure, timing.clocks) == (None, None, "", None)
        assert outputs.called == {0, 1, 2, 3}
        outputs.at_the_end(4)


def test_an_order_that_is_clocked_lies_there_when_the_runner_wakes_up(monkeypatch):
    """Numbers that have changed are told before, and no clock runs."""
    with bench_of(right) as bench:
        seen = []

        def noted(name, function):
            def call(*given):
                seen.append(name(*given))
                return function(*given)

            return call

        monkeypatch.setattr(link, "resume_tree", noted(lambda *_: "wakes", link.resume_tree))
        monkeypatch.setattr(link.channel, "send", noted(lambda _, frame: next(iter(frame)), link.channel.send))
        monkeypatch.setattr(bursts.Watch, "start", noted(lambda _: "clock", bursts.Watch.start))
        kernel = Kernel(bench.link, bench.memory)
        order = ["clock", "go", "wakes"]
        bursts.kernel_seconds(kernel, [0], 20.0)
        assert [each for each in seen if each in (*order, "numbers")] == order
        seen.clear()
        bench.arguments.numbers[0] = {"shift": 0.75}
        bursts.kernel_seconds(kernel, [0], 20.0)
        assert [each for each in seen if each in (*order, "numbers")] == ["wakes", "numbers", *order]


def test_numbers_are_told_while_old_values_lie_there(monkeypatch):
    """The runner goes on without a clock when it is told them."""
    with bench_of(right) as bench:
        judging.fill_for_timing(bench)
        told = []

        def noted(slot, **further):
            told.append(bench.link._told[slot] == bench.arguments.numbers[slot])
            Arguments.stir(bench.arguments, slot, **further)
            told.append(bench.link._told[slot] == bench.arguments.numbers[slot])

        monkeypatch.setattr(bench.arguments, "stir", noted)
        rounds = clock.Rounds(bench, PACE, {clock.CANDIDATE: lambda turn: 1.0})
        before = [dict(each) for each in bench.arguments.numbers]
        for _ in range(3):
            rounds.play([clock.CANDIDATE])
        assert told and all(told)
        assert bench.arguments.numbers != before


def test_rounds_tell_which_batch_they_are_of_and_whether_others_want_the_processors(monkeypatch):
    """With 40 threads of others beside the kernel's own, and without."""
    monkeypatch.setattr(clock, "EVERY_S", 0.0)
    for running in (41, 1):
        monkeypatch.setattr(clock, "observe", lambda device, running=running: Reading(100, 0, running))
        with bench_of(right) as bench:
            bench.reference.variant = Variant(name="half", batch=6)
            told = []
            with telling(told.append):
                timed(bench)
        assert {(each.at, each.incumbent) for each in told} == {("at batch 6", False)}
        assert told[-1].busy is (running > 1)


def slow(views, numbers):
    time.sleep(0.02)
    right(views, numbers)


def test_speedups_have_the_baseline_above_and_the_candidate_below():
    """A candidate of 20 ms and more a call, beside eager, torch.compile's and an incumbent's microseconds."""
    with bench_of(slow) as bench:
        beside = bench.memory.beside()
        with runner_of(right, beside, bench.arguments.numbers) as link:
            link.share(beside, bench.arguments.numbers)
            link.load("incumbent.so")
            incumbent = Incumbent("the incumbent", Kernel(link, beside))
            compiled = CompiledReference(replicas=bench.arguments.replicas)
            timing, _ = timed(bench, incumbent=incumbent, compiled=compiled)
    assert timing.candidate_ms >= 20
    assert (timing.baseline_ms < timing.candidate_ms, timing.speedup < 1) == (True, True)
    assert timing.head_to_head.incumbent == "the incumbent"
    assert (timing.head_to_head.incumbent_ms < timing.candidate_ms, timing.head_to_head.speedup < 1) == (True, True)
    assert (timing.compiled.ms < timing.candidate_ms, timing.compiled.speedup < 1) == (True, True)


def test_a_compiled_baseline_that_failed_is_said():
    with bench_of(right) as bench:
        timing, _ = timed(bench, compiled=CompiledReference(failure="no compiler"))
    assert (timing.compiled, timing.compiled_failure) == (None, "no compiler")


def test_a_rival_that_fails_is_not_the_candidates_fault():
    def fails(views, numbers):
        raise FailedError("exception", "gone bad")

    with bench_of(right) as bench:
        beside = bench.memory.beside()
        with runner_of(fails, beside, bench.arguments.numbers) as link:
            link.share(beside, bench.arguments.numbers)
            link.load("incumbent.so")
            with pytest.raises(IncumbentFailedError, match="gone bad"):
                timed(bench, incumbent=Incumbent("r", Kernel(link, beside)))
    with bench_of(fails) as bench, pytest.raises(CandidateFailedError, match="gone bad"):
        timed(bench)


def test_an_output_that_somebody_writes_before_the_order_refuses_the_time():
    """The judge waits a little before an order; a thread of the kernel's works meanwhile."""

    def early():
        while not ended.wait(0.0001):
            for slot in range(bench.memory.slots):
                if bench.memory.views[slot]["y"].isnan().any():
                    right(bench.memory.views[slot], bench.arguments.numbers[slot])

    ended = threading.Event()
    with bench_of(right) as bench:
        worker = threading.Thread(target=early)
        worker.start()
        try:
            with pytest.raises(CandidateFailedError, match="before the call that writes them") as failure:
                timed(bench)
        finally:
            ended.set()
            worker.join()
    assert (failure.value.status, failure.value.check) == ("refused", "clock")


def test_inputs_and_weights_are_stirred_before_every_round_and_touched_before_bursts_that_do_not_count(monkeypatch):
    monkeypatch.setattr(bursts, "TOUCHED", 1)
    seen = []

    def remembers(views, numbers):
        seen.append((views["x"].clone(), views["scale"].clone(), views["x"].data_ptr()))
        right(views, numbers)

    with bench_of(remembers) as bench:
        timing, _ = timed(bench)
        plain = bench.arguments.pattern[0]
    assert len(seen) == (clock.MIN_ROUNDS + 2) * PACE.calls
    assert timing.rounds == clock.MIN_ROUNDS
    _, *counted, last, touched = [dict(enumerate(seen[at : at + 3])) for at in range(0, len(seen), 3)]
    for one, other in pairwise([call for burst in (*counted, last) for call in burst.values()]):
        assert (one[0] != other[0]).double().mean() > 0.9
        assert (one[1] != other[1]).double().mean() > 0.7
        assert (one[0] <= plain).all()
    for position, (x, scale, address) in touched.items():
        assert last[position][2] == address
        changed = int((x != last[position][0]).sum()), int((scale != last[position][1]).sum())
        assert changed[0] <= 16
        assert sum(map(bool, changed)) == (2 if position == 1 else 1), "all arguments, or some while others stay"


@pytest.mark.parametrize("wrong_until", [1, clock.MIN_ROUNDS // 2])
def test_a_burst_that_left_something_wrong_is_refused_whatever_later_ones_do(wrong_until, monkeypatch):
    monkeypatch.setattr(bursts, "TOUCHED", 1)
    calls = []

    def at_first(views, numbers):
        calls.append(1)
        if 0 <= (len(calls) - 1) // PACE.calls - 1 < wrong_until:
            views["y"].fill_(0)
        else:
            right(views, numbers)

    with bench_of(at_first) as bench, pytest.raises(CandidateFailedError, match="y came out wrong") as failure:
        timed(bench)
    assert (failure.value.status, failure.value.check) == ("refused", "timed_output")
    assert len(calls) == 2 * PACE.calls


def test_what_is_touched_is_several_slots_though_a_burst_be_one_call():
    calls = []

    def counted(views, numbers):
        calls.append(views["x"].data_ptr())
        right(views, numbers)

    with bench_of(counted, slots=12) as bench:
        timed(bench, Pace(calls=1, timeout_s=20.0))
    first, last = calls[: bursts.TOUCHED], calls[-bursts.TOUCHED :]
    assert len(set(first)) == len(set(last)) == bursts.TOUCHED
    assert len(calls) == 2 * bursts.TOUCHED + clock.MIN_ROUNDS


def test_who_takes_touched_inputs_for_the_same_is_wrong():
    kept = {}

    def sampled(views, numbers):
        key = views["x"].data_ptr()
        if key in kept and (kept[key][0] == views["x"]).double().mean() > 0.3:
            views["y"].copy_(kept[key][1])
            return
        right(views, numbers)
        kept[key] = views["x"].clone(), views["y"].clone()

    with bench_of(sampled) as bench, pytest.raises(CandidateFailedError, match="y came out wrong"):
        for _ in range(3):  # 16 of 30 elements are touched, some of them twice
            timed(bench)[1].at_the_end(4)


def test_both_sides_are_warm_before_their_pace_is_known():
    called = []
    with bench_of(lambda views, numbers: called.append(views["x"].data_ptr()), slots=8) as bench:
        pace = set_pace(bench, 12.0)
        assert len(set(called)) == 8
    assert pace.timeout_s == 12.0
    assert 1 <= pace.calls <= 8


def test_a_message_costs_less_than_a_millisecond_or_so():
    with bench_of(right) as bench:
        cost = message_cost(bench.link, bench.memory)
        assert 0 < cost.least_s <= cost.usual_s < 1
        bench.message = MessageCost(usual_s=math.inf)
        bench.arguments.fill(0, 1, "given")
        spent = bursts.kernel_burst(bench, Kernel(bench.link, bench.memory), Pace(1, 20.0), 0)
        assert 0 < spent < 20  # a tenth is left of a burst that looked shorter than nothing


@given(st.floats(0.1, 10), st.floats(0, 1), st.integers(1, 40))
def test_what_a_message_may_not_have_cost_is_in_the_interval(speedup, doubt_s, rounds):
    """A candidate that took `doubt_s` longer a call than its samples say would have the interval's lower end."""
    candidate = [1.0 + 0.01 * (turn % 3) for turn in range(rounds)]
    baseline = [speedup * spent for spent in candidate]
    found, interval = clock._over_torch(baseline, candidate, doubt_s)
    assert found == pytest.approx(speedup)
    assert interval.high == pytest.approx(speedup)
    spent = median(candidate)
    assert interval.low == pytest.approx(speedup * spent / (spent + doubt_s))


def test_a_message_of_doubtful_cost_makes_no_win():
    with bench_of(right) as bench:
        bench.message = MessageCost(usual_s=1e-9, least_s=1e-9)
        sure = timed(bench)[0]
        bench.message = MessageCost(usual_s=1e-9, least_s=1e-9 - 3 * PACE.calls)
        doubtful = timed(bench)[0]
    assert sure.speedup_interval.low > 100 * doubtful.speedup_interval.low
    assert doubtful.speedup_interval.high > doubtful.speedup > doubtful.speedup_interval.low
