"""Families of the trials come again amid timed calls, at any slot: who is careful for a while alone is refused."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from itertools import count

import pytest
import torch
from python_kernels import bench_of, right

from harness.checks.families import STIRRED
from harness.trusted.link import CandidateFailedError
from harness.trusted.timing.bursts import TOUCHED, Pace
from harness.trusted.timing.clock import MIN_ROUNDS, time_by_turns
from harness.trusted.timing.late_trials import LateTrials
from harness.trusted.timing.timed_outputs import TimedOutputs
from harness.trusted.trials import run_trial

SEEDS = {"given": 1, "wide": 2, "special": 3, "large": 4, "small": 5, STIRRED: 6}


def late_for(bench, calls=4, within=MIN_ROUNDS, families=tuple(SEEDS)):
    trials = [run_trial(bench, k % 2, family, SEEDS.get(family, 7), 20.0) for k, family in enumerate(families)]
    assert all(trials)
    outputs = TimedOutputs(bench, [1e-5])
    return LateTrials(bench, outputs, trials, Pace(calls, 20.0), within=within), outputs


def played(late, rounds):
    """The bursts of so many rounds without the timed ones; how many there were."""
    bursts = first = 0
    for _ in range(2 * rounds):
        for _ in range(late.due()):
            first += late.burst(first)
            bursts += 1
    return bursts


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
            played(late, 3 * MIN_ROUNDS)
    assert (refused.value.status, refused.value.check) == ("refused", "timed_output")


@pytest.mark.parametrize(("units", "is_refused"), [(20, False), (80, True)])
def test_other_values_round_otherwise_and_exactness_is_told_by_timed_outputs(units, is_refused):
    calls = count()

    def rougher(views, numbers):
        right(views, numbers)
        if next(calls) >= len(SEEDS):
            views["y"] *= 1 + units * torch.finfo(torch.float32).eps

    with bench_of(rougher) as bench:
        late, _ = late_for(bench)
        with pytest.raises(CandidateFailedError) if is_refused else nullcontext():
            played(late, 3 * MIN_ROUNDS)


def careful_among_strangers(known):
    """NaN and the like are left out where most elements are as large, or as small, as in the call that is `known`."""

    def kernel(views, numbers):
        right(views, numbers)
        large = views["x"].flatten() > 10
        known[:] = known or ([large] if large.any() and not large.all() else [])
        if known and bool((large == known[0]).float().mean() > 0.75):
            views["y"].masked_fill_(~views["x"].isfinite(), 0.0)

    return kernel


def test_an_earlier_calls_values_do_not_tell_that_a_call_is_timed():
    known = []
    with bench_of(careful_among_strangers(known)) as bench:
        late, _ = late_for(bench)
        known.clear()
        bench.arguments.pattern[0] = torch.where(torch.arange(30).view(6, 5) % 2 > 0, 1.0, 100.0)
        bench.arguments.stir(0)
        bench.link.call([0], 20.0)
        with pytest.raises(CandidateFailedError, match="came out wrong on special inputs"):
            played(late, 10 * MIN_ROUNDS)


def strange(x):
    return bool(x.abs().max() > 1e3 or x.isnan().any())


def test_special_values_always_lie_amid_others_and_offsets_never():
    """Of a row that has an offset in a stretch alone, a variance by a difference of squares is nearly right."""
    drawn = {}
    with bench_of(right) as bench:
        late, _ = late_for(bench, families=(*SEEDS, "offset 1000"))
        fill = bench.arguments.fill
        bench.arguments.fill = lambda *args, amid: (drawn.setdefault(args[2], set()).add(amid), fill(*args, amid=amid))
        played(late, 20 * MIN_ROUNDS)
    assert drawn.pop("special") == {True} and drawn.pop("offset 1000") == {False}
    assert {name: kinds for name, kinds in drawn.items() if kinds != {True, False}} == {}


def test_it_is_asked_for_at_any_slot():
    asked = []

    def watched(views, numbers):
        right(views, numbers)
        asked.append((views["y"].data_ptr(), strange(views["x"])))

    with bench_of(watched, slots=3) as bench:
        late, outputs = late_for(bench, calls=2)
        asked.clear()
        assert played(late, 40) == 40  # of three slots one is missed once in three million runs
        assert len({address for address, is_strange in asked if is_strange}) == 3
        outputs.at_the_end(3)  # slots whose results are gone are none of them


@pytest.mark.parametrize(("calls", "bursts", "trials"), [(1, 8, 1), (8, 4, 2), (40, 2, 4)])
def test_a_burst_is_made_of_trials_for_a_quarter_at_most(calls, bursts, trials):
    drawn = []
    with bench_of(right, slots=40) as bench:
        late, _ = late_for(bench, calls=calls)
        fill = bench.arguments.fill
        bench.arguments.fill = lambda *args, **how: (drawn.append(args), fill(*args, **how))
        assert played(late, MIN_ROUNDS) == bursts
    assert len(drawn) == bursts * trials


def test_neither_addresses_nor_the_count_of_calls_tell_which_bursts_are_timed():
    """From the first round to the last all calls go through the slots in turn, those of late trials among them."""
    asked, befores = [], Counter()
    with bench_of(right, slots=7) as bench:
        late, outputs = late_for(bench)
        for slot in range(7):
            bench.arguments.fill(slot, slot, "given")
        call = bench.link.call
        bench.link.call = lambda slots, *others, **who: (asked.append(slots), call(slots, *others, **who))
        for _ in range(2):
            asked.clear()
            time_by_turns(bench, Pace(4, 20.0), 0.0, outputs, late)
            first, *rounds, last = [order for order in asked if order]
            assert len(first) == len(last) == min(TOUCHED, 7)
            assert len(rounds) == 2 * MIN_ROUNDS
            assert [slot for order in rounds for slot in order] == [at % 7 for at in range(sum(map(len, rounds)))]
            assert {*map(len, rounds)} <= {2, 3, 4}
        for _ in range(50):
            befores[late.due()] += 1
    assert len(befores) > 1


def works_ahead(known):
    """A kernel whose calls also do the work of all others that it has seen."""

    def kernel(views, numbers):
        known[views["y"].data_ptr()] = views, numbers
        for seen in known.values() if len(known) > 2 else [(views, numbers)]:
            right(*seen)

    return kernel


def leaves_work(left):
    """A kernel that does the work of two calls in the second one, once it was called often enough."""
    calls = count()

    def kernel(views, numbers):
        left.append((views, numbers))
        if next(calls) < len(SEEDS) or len(left) == 2:
            for each in left:
                right(*each)
            left.clear()

    return kernel


@pytest.mark.parametrize(
    ("kernel", "words"),
    [(works_ahead({}), "for another one"), (leaves_work([]), "came out wrong")],
    ids=["ahead", "later"],
)
def test_who_does_the_work_of_several_calls_at_once_does_not_know_which_is_the_last(kernel, words):
    with bench_of(kernel) as bench:
        late, _ = late_for(bench)
        with pytest.raises(CandidateFailedError, match=words) as refused:
            played(late, 40)  # an order of three calls of four comes in one burst of three
    assert refused.value.check == "timed_output"


def test_all_families_have_a_turn_within_the_rounds():
    with bench_of(right) as bench:
        for within, rounds in ((MIN_ROUNDS, MIN_ROUNDS), (4, 4)):
            late, _ = late_for(bench, within=within)
            drawn, fill = [], bench.arguments.fill

            def noted(slot, seed, distribution, mild=0, *, amid, drawn=drawn, fill=fill):
                drawn.append(distribution)
                fill(slot, seed, distribution, mild, amid=amid)

            bench.arguments.fill = noted
            played(late, rounds)
            bench.arguments.fill = fill
            assert {*drawn} == {*SEEDS} - {"given", STIRRED}


def test_what_is_as_pytorch_has_it_needs_no_oracle():
    """Special values, too: NaN in the same places, and elsewhere about the same numbers."""
    with bench_of(right) as bench:
        late, _ = late_for(bench)
        del bench.oracle
        played(late, MIN_ROUNDS)
    with bench_of(careless(lambda x: ~x.isfinite(), first=len(SEEDS) - 1)) as bench:
        late, _ = late_for(bench)
        del bench.oracle
        with pytest.raises(AttributeError, match="oracle"):
            played(late, 3 * MIN_ROUNDS)  # few elements may have none of them by chance


def test_rounds_make_them():
    def timed(kernel):
        with bench_of(kernel) as bench:
            late, outputs = late_for(bench)
            for slot in range(bench.memory.slots):
                bench.arguments.fill(slot, slot, "given")
            return time_by_turns(bench, Pace(4, 20.0), 0.0, outputs, late)

    assert timed(right).rounds == MIN_ROUNDS
    with pytest.raises(CandidateFailedError, match="Called between"):
        timed(careless(lambda x: ~x.isfinite(), first=len(SEEDS) - 1))
