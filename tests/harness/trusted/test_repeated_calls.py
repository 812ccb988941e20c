"""The same inputs once more: what a moving, a stale and a failing kernel make of a trial."""

from __future__ import annotations

import math

import pytest
import torch
from python_kernels import FailedError, bench_of, right

from harness.checks.pattern import MOVING, STALE
from harness.nouns.verdict import OutputError, Trial
from harness.trusted.link import CandidateFailedError
from harness.trusted.memory import other_poison
from harness.trusted.repeats import REPEATS, _changed, _marked, needs_repeating, repeated
from harness.trusted.trials import run_trial


def after_repeats(kernel):
    with bench_of(kernel) as bench:
        return repeated(bench, 0, run_trial(bench, 0, "given", 1, 20.0), 20.0)


def counting(change, *, right_first=True):
    """A right kernel whose `change` gets the output and the number of the call."""
    calls = []

    def kernel(views, numbers):
        if right_first:
            right(views, numbers)
        calls.append(1)
        change(views["y"], len(calls))

    return kernel, calls


def test_the_same_bits_three_times_more_are_repeatable():
    kernel, calls = counting(lambda y, call: None)
    trial = after_repeats(kernel)
    assert trial.repeatable is True
    assert len(calls) == 1 + REPEATS == 4


@pytest.mark.parametrize("call", [2, 3, 4])
def test_a_result_that_moves_beyond_the_tolerance_is_wrong(call):
    kernel, calls = counting(lambda y, number: y[2, 3].add_(number == call))
    trial = after_repeats(kernel)
    assert trial.repeatable is False
    assert trial.outputs[0].bad_fraction == pytest.approx(1 / 30)
    assert trial.outputs[0].first_bad.index == (2, 3)
    assert trial.outputs[0].pattern.endswith(MOVING)
    assert len(calls) == call


def test_one_that_moves_within_it_is_noted():
    kernel, _ = counting(lambda y, call: y[0, 0].mul_(1 + 1e-7 * (call > 1) * 2))
    trial = after_repeats(kernel)
    assert (trial.repeatable, trial.outputs[0].bad_fraction, trial.outputs[0].pattern) == (False, 0, "")


def test_one_that_was_wrong_already_stays_as_it_came_out_first():
    kernel, _ = counting(lambda y, call: y[0, call].add_(1))
    trial = after_repeats(kernel)
    assert trial.outputs[0].first_bad.index == (0, 1)
    assert trial.outputs[0].pattern.endswith(MOVING)


def test_what_hides_a_nan_shows_over_the_other_filling():
    def maximum(views, numbers):
        wanted = views["x"] * views["scale"] + numbers["shift"]
        torch.fmax(views["y"], wanted, out=views["y"])

    trial = after_repeats(maximum)
    assert trial.repeatable is False
    assert trial.outputs[0].bad_fraction == 1
    assert trial.outputs[0].pattern == f"all elements, {STALE}"


def test_what_is_never_written_needs_no_second_word():
    def half(views, numbers):
        views["y"][:3] = (views["x"] * views["scale"] + numbers["shift"])[:3]

    trial = after_repeats(half)
    assert trial.outputs[0].pattern == "never written (or NaN), the tail from flat index 15 of 30"
    assert trial.repeatable is False


def test_a_failure_on_the_way_fails_a_kernel_that_was_right_so_far():
    def fails(y, call):
        if call == 3:
            raise FailedError("exception", "no more")

    kernel, _ = counting(fails)
    with pytest.raises(CandidateFailedError, match="no more"):
        after_repeats(kernel)

    def wrong_and_fails(y, call):
        fails(y, call)
        y.zero_()

    kernel, _ = counting(wrong_and_fails)
    trial = after_repeats(kernel)
    assert trial.repeatable is None
    assert trial.outputs[0].pattern == "all elements"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_a_floating_output_is_stale_only_where_all_that_changed_is_the_filling(dtype):
    first = torch.tensor([1.0, math.nan, 0.0, 3.0], dtype=dtype)
    assert _changed(first.clone(), first) == ""
    now = first.clone()
    now[1] = other_poison(dtype)
    assert _changed(now, first) == STALE
    now[3] = 2
    assert _changed(now, first) == MOVING
    assert _changed(torch.tensor([1.0, math.nan, -0.0, 3.0], dtype=dtype), first) == MOVING


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int64, torch.bool])
def test_an_exact_output_moves(dtype):
    first = torch.tensor([0, 1, 1], dtype=dtype)
    assert _changed(first.clone(), first) == ""
    assert _changed(torch.tensor([1, 1, 1], dtype=dtype), first) == MOVING


def test_wrong_trials_and_the_last_one_are_repeated():
    def trial(bad: float, distribution: str = "normal") -> Trial:
        zero = {"relative_l2": 0, "max_scaled": 0, "reference_relative_l2": 0, "reference_max_scaled": 0}
        outputs = (OutputError(output="y", **zero), OutputError(output="z", bad_fraction=bad, **zero))
        return Trial(distribution=distribution, seed=1, outputs=outputs)

    assert [needs_repeating(trial(0.0, name)) for name in ("given", "mixed", "stirred")] == [False, False, True]
    assert needs_repeating(trial(0.1))


def test_of_several_outputs_those_that_moved_are_marked():
    wrong = OutputError(
        output="y", relative_l2=0, max_scaled=1, reference_relative_l2=0, reference_max_scaled=0, bad_fraction=0.5,
        pattern="all elements",
    )  # fmt: skip
    assert _marked(wrong, "") == wrong
    assert _marked(wrong, STALE).pattern == f"all elements, {STALE}"
    assert _marked(wrong.model_copy(update={"bad_fraction": 0.0}), MOVING).pattern == "all elements"
    unwritten = wrong.model_copy(update={"pattern": "never written (or NaN), all elements"})
    assert _marked(unwritten, STALE) == unwritten
    assert _marked(unwritten, MOVING).pattern.endswith(MOVING)
