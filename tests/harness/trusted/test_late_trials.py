"""Families of the trials come again amid timed calls, at any slot: who is careful for a while alone is refused."""

from __future__ import annotations

from itertools import count

import pytest
from python_kernels import bench_of, right

from harness.checks.families import STIRRED
from harness.trusted.link import CandidateFailedError
from harness.trusted.timing.bursts import Pace
from harness.trusted.timing.clock import MIN_ROUNDS, time_by_turns
from harness.trusted.timing.late_trials import LateTrials
from harness.trusted.timing.timed_outputs import TimedOutputs
from harness.trusted.trials import run_trial

SEEDS = {"given": 1, "wide": 2, "special": 3, "large": 4, "small": 5, STIRRED: 6}


def late_for(bench, within=MIN_ROUNDS):
    trials = [run_trial(bench, k % 2, family, seed, 20.0) for k, (family, seed) in enumerate(SEEDS.items())]
    assert all(trials)
    outputs = TimedOutputs(bench, [1e-5])
    return LateTrials(bench, outputs, trials, 20.0, within=within), outputs


def careless(wrong, first):
    """A kernel that computes something else where `wrong` says so of its input, once it was called so often."""
    calls = count()

    def kernel(views, numbers):
        right(views, numbers)
        if next(calls) > first:
            views["y"].masked_fill_(wrong(views["x"]), 0.0)

    return kernel


@pytest.mark.parametrize(
    "wrong",
    [lambda x: ~x.isfinite(), lambda x: x.abs() > 1e3, lambda x: (x.abs() < 1e-6) & (x != 0)],
    ids=["special", "large", "small"],
)
def test_what_timed_inputs_never_hold_is_asked_for_between_them(wrong):
    with bench_of(careless(wrong, first=len(SEEDS) - 1)) as bench:
        late, _ = late_for(bench)
        with pytest.raises(CandidateFailedError, match="Called between timed calls") as refused:
            for _ in range(MIN_ROUNDS):
                late.after_round()
    assert (refused.value.status, refused.value.check) == ("refused", "timed_output")


def test_it_is_asked_for_at_any_slot_and_at_any_place_of_an_order():
    asked = []

    def watched(views, numbers):
        right(views, numbers)
        asked.append((views["y"].data_ptr(), bool(views["x"].abs().max() > 1e3 or views["x"].isnan().any())))

    with bench_of(watched, slots=6) as bench:
        late, outputs = late_for(bench)
        outputs.called.update(range(6))
        asked.clear()
        for _ in range(200):  # of six slots one is missed once in thirty thousand runs
            late.after_round()
        strange = [(address, place % 4) for place, (address, is_strange) in enumerate(asked) if is_strange]
        assert len({address for address, _ in strange}) == 6
        assert {place for _, place in strange} == {0, 1, 2, 3}
        outputs.at_the_end(6)  # slots whose results are gone are none of them


def test_all_families_have_a_turn_within_the_rounds():
    with bench_of(right) as bench:
        late, _ = late_for(bench)
        drawn, fill = [], bench.fill

        def noted(slot, seed, distribution, mild=0):
            drawn.append(distribution)
            fill(slot, seed, distribution, mild)

        bench.fill = noted
        for _ in range(MIN_ROUNDS):
            late.after_round()
        assert {*drawn} == {*SEEDS} - {"given", STIRRED}
        drawn.clear()
        late, _ = late_for(bench, within=1)
        drawn.clear()
        late.after_round()
        assert sorted(drawn) == sorted({*SEEDS} - {"given", STIRRED})


def test_what_is_as_pytorch_has_it_needs_no_oracle():
    """Special values, too: NaN in the same places, and elsewhere about the same numbers."""
    with bench_of(right) as bench:
        late, _ = late_for(bench)
        del bench.oracle
        for _ in range(2 * MIN_ROUNDS):
            late.after_round()
    with bench_of(careless(lambda x: x.isnan(), first=len(SEEDS) - 1)) as bench:
        late, _ = late_for(bench)
        del bench.oracle
        with pytest.raises(AttributeError, match="oracle"):
            for _ in range(MIN_ROUNDS):
                late.after_round()


def test_rounds_make_them():
    def timed(kernel):
        with bench_of(kernel) as bench:
            late, outputs = late_for(bench)
            for slot in range(bench.memory.slots):
                bench.fill(slot, slot, "given")
            return time_by_turns(bench, Pace(4, 20.0), 0.0, outputs, late)

    assert timed(right).rounds == MIN_ROUNDS
    with pytest.raises(CandidateFailedError, match="Called between"):
        timed(careless(lambda x: ~x.isfinite(), first=len(SEEDS) - 1))
