"""The judging job's own decisions: what it says of a wrong output, what it fills, what it looks at after timing."""

from __future__ import annotations

import math
import random
import re
from functools import partial
from itertools import count

import pytest
import torch
from python_kernels import JOB, SIGNATURE, SOURCE, FailedError, X, bench_of, right, runner_of

from harness.checks.families import MULTIPLIED, PLANS, SHARED
from harness.nouns.errors import UserError
from harness.nouns.task import Signature, TensorSpec
from harness.nouns.verdict import OutputError, Trial
from harness.trusted import feeding
from harness.trusted.host_device import HostDevice
from harness.trusted.jobs import cross_workload as mixing
from harness.trusted.jobs import judging
from harness.trusted.jobs.judging import raise_if_wrong
from harness.trusted.link import CandidateFailedError, WrongError
from harness.trusted.timing.timed_outputs import TimedOutputs
from harness.trusted.trials import run_trial
from harness.wire.job import IncumbentRunner
from harness.wire.layout import slot_bytes

pytestmark = pytest.mark.usefixtures("nobody_is_hopeless")

# No two inputs are alike.
ORDER = tuple(each for each in PLANS["elementwise"] if each != SHARED)


def error(largest=0.0, own=0.0, bad=0.0):
    first = {"first_bad": {"index": (1, 2), "expected": 0.5, "got": 0.25}, "pattern": "whole rows"} if bad else {}
    return OutputError(
        output="y", relative_l2=0, max_scaled=largest, reference_relative_l2=0, reference_max_scaled=own,
        bad_fraction=bad, **first,
    )  # fmt: skip


def trial(*errors, distribution="given"):
    return Trial(distribution=distribution, seed=9, outputs=errors)


def test_a_wrong_output_is_told_with_its_numbers():
    raise_if_wrong(trial(error(), error()))
    with pytest.raises(WrongError) as told:
        raise_if_wrong(trial(error(), error(largest=0.125, own=1e-7, bad=0.25), distribution="wide"))
    assert str(told.value) == (
        "y is wrong on wide inputs (seed 9): 25.000% of it, whole rows. First at [1, 2]: expected 0.5, got 0.25. "
        "Largest scaled error 0.125, PyTorch's own 1e-07."
    )


FED = re.compile(r"First at \[(\d+), (\d+)\]: expected [^,]+, got [^,]+, made of (.*?)( and more)?\. Largest")


def fed(kernel, source, op_class, signature=SIGNATURE):
    """A wrong kernel's first wrong element on special inputs, what is said to feed it, and all of the inputs."""
    with bench_of(kernel, source=source, op_class=op_class, signature=signature) as bench:
        trial = run_trial(bench, 0, "special", 5, 20.0)
        assert trial is not None
        with pytest.raises(WrongError) as told:
            raise_if_wrong(trial, partial(feeding.fed_by, bench, 0))
        found = FED.search(str(told.value))
        assert found, str(told.value)
        named = {
            tuple(map(int, at.split(", "))): float(value)
            for at, value in re.findall(r"x\[(\d+, \d+)\] = ([^,]+)", found[3])
        }
        return (int(found[1]), int(found[2])), named, bench.arguments.inputs(0)[0].clone(), found[4]


def test_the_special_input_of_the_first_wrong_element_is_told():
    def forgets(views, numbers):
        views["y"].copy_(views["x"].nan_to_num(0.0) * views["scale"] + numbers["shift"])

    at, named, x, _ = fed(forgets, SOURCE, "elementwise")
    assert [*named] == [at]
    assert not math.isfinite(x[at]) and (named[at] == float(x[at]) or math.isnan(x[at]))


def test_of_a_reduction_the_specials_of_the_row_are_told_and_no_others():
    rows = X.model_copy(update={"shape": (64, 300), "strides": (300, 1)})
    shape = {"inputs": (rows, SIGNATURE.inputs[1]), "outputs": (rows.model_copy(update={"name": "y"}),)}
    source = SOURCE.replace("x * self.scale + shift", "x - x.amax(1, keepdim=True) + shift * self.scale.sum()")
    source = source.replace("(6, 5)", "(64, 300)")

    def forgets(views, numbers):
        x = views["x"].nan_to_num(0.5, 0.5, 0.5)
        views["y"].copy_(x - x.amax(1, keepdim=True) + numbers["shift"] * views["scale"].sum())

    (row, _), named, x, more = fed(forgets, source, "reduction", SIGNATURE.model_copy(update=shape))
    strange = (~x[row].isfinite()).nonzero().flatten().tolist()
    assert {at for at, _ in named} == {row}
    assert set(strange) <= {column for _, column in named} or more


def test_where_nothing_special_is_at_fault_nothing_is_told():
    def halves(views, numbers):
        right(views, numbers)
        views["y"][0, 0] = 0.0

    with bench_of(halves) as bench:
        trial = run_trial(bench, 0, "wide", 5, 20.0)
        assert trial is not None and feeding.fed_by(bench, 0, trial, 0) == ""


@pytest.mark.parametrize("asked", [None, 3])
def test_a_pass_is_as_many_trials_as_are_asked_for(asked):
    addresses = []

    def remembers(views, numbers):
        addresses.append(views["x"].data_ptr())
        right(views, numbers)

    trials = []
    with bench_of(remembers) as bench:
        timeout_s = judging.check(bench, JOB.model_copy(update={"trials": asked}), trials)
        assert [each.distribution for each in trials] == list(ORDER[:asked])
        assert [each.repeatable for each in trials] == ([None] * (len(ORDER) - 1) + [True])[:asked]
        assert trials[0].seed == 5
        slots = [bench.memory.views[slot]["x"].data_ptr() for slot in (0, 1)]
    made = iter(addresses)
    assert all(slots[position % 2] in made for position in range(len(trials))), "by turns, other threads' calls aside"
    assert judging.MIN_TIMEOUT_S < timeout_s < judging.MIN_TIMEOUT_S + judging.PATIENCE * 10


def test_the_first_wrong_trial_is_the_last_one_and_is_repeated():
    calls = count()

    def wrong_from_the_third_on(views, numbers):
        right(views, numbers)
        if next(calls) >= 2:
            views["y"][0, 0] += 1

    trials = []
    with bench_of(wrong_from_the_third_on) as bench, pytest.raises(WrongError, match="y is wrong on mixed inputs"):
        judging.check(bench, JOB, trials)
    assert [each.distribution for each in trials] == list(ORDER[:3])
    assert trials[-1].repeatable is True  # wrong the same way each time
    assert next(calls) == 3 + 3


def test_products_are_of_numbers_near_one():
    """Over six decades another order of factors has other results."""
    first, last = X.model_copy(update={"shape": (64, 300), "strides": (300, 1)}), (64,)
    signature = Signature(
        inputs=(first,), outputs=(first.model_copy(update={"name": "y", "shape": last, "strides": (1,)}),)
    )
    source = SOURCE.replace("x, shift", "x").replace("x * self.scale + shift", "x.prod(dim=1)")
    source = source.replace("torch.rand(6, 5) + 1, 0.5", "torch.rand(64, 300) + 0.5")
    first_factors = 300

    def halves(views, numbers):
        x = views["x"][:, :first_factors]
        torch.mul(x[:, :150].prod(dim=1), x[:, 150:].prod(dim=1), out=views["y"])

    with bench_of(halves, source=source, signature=signature, op_class="reduction") as bench:
        bench.facts = bench.facts.model_copy(update={"multiplies": True})
        judging.check(bench, JOB, trials := [])
        assert [each.distribution for each in trials] == [*MULTIPLIED]
        assert (bench.arguments.manner, bench.untried) == ("near one", [])
        for _ in range(3):
            bench.arguments.stir(0)
            products = bench.reference.run(bench.arguments.inputs(0))[0].abs()
            assert 1e-4 < products.median() < 1e4, "stirred factors neither vanish nor overflow"
        first_factors = 299
        with pytest.raises(WrongError, match="y is wrong on given inputs"):
            judging.check(bench, JOB.model_copy(update={"multiplies": True}), [])
        with pytest.raises(WrongError, match="y is wrong on near one inputs"):
            raise_if_wrong(run_trial(bench, 0, "near one", 3, 20.0))


def test_in_float64_another_order_of_summation_is_right():
    rows = X.model_copy(update={"shape": (1200, 400), "strides": (400, 1), "dtype": "float64"})
    sums = rows.model_copy(update={"name": "y", "shape": (1200,), "strides": (1,)})
    source = SOURCE.replace("x, shift", "x").replace("x * self.scale + shift", "x.sum(dim=1)")
    source = source.replace("torch.rand(6, 5) + 1, 0.5", "torch.rand(1200, 400, dtype=torch.float64)")

    def one_by_one(views, numbers):
        views["y"].copy_(views["x"].cumsum(dim=1)[:, -1])

    signature = Signature(inputs=(rows,), outputs=(sums,))
    with bench_of(one_by_one, source=source, signature=signature, op_class="reduction") as bench:
        judging.check(bench, JOB.model_copy(update={"trials": 4}), trials := [])
        error = trials[0].outputs[0]
        assert error.max_scaled > 0 == error.reference_max_scaled
        bench.memory.views[0]["y"].copy_(bench.memory.views[0]["x"].float().sum(dim=1))
        with pytest.raises(CandidateFailedError):
            verify(bench, 0, 0.0)


def test_one_slot_has_to_do_where_there_is_room_for_no_second_one():
    trials = []
    with bench_of(right, slots=1) as bench:
        judging.check(bench, JOB.model_copy(update={"trials": 2}), trials)
    assert len(trials) == 2


@pytest.mark.parametrize("asked", [1, None])
def test_a_reference_that_refuses_its_own_inputs_is_the_files_fault(asked):
    """It accepts those alone that it was described with, the pattern here."""
    with bench_of(right) as bench:
        first = float(bench.arguments.pattern[0][0, 0])
    picky = SOURCE.replace("        return x", f"        assert float(x[0, 0]) == {first}\n        return x")
    with bench_of(right, source=picky) as bench, pytest.raises(UserError, match="refuses inputs that get_inputs gives"):
        judging.check(bench, JOB.model_copy(update={"trials": asked}), [])


def test_all_slots_are_filled_for_timing_each_with_inputs_of_its_own():
    with bench_of(right) as bench:
        judging.fill_for_timing(bench)
        x = [bench.memory.views[slot]["x"] for slot in range(4)]
        for position, values in enumerate(x):
            assert ((values >= 0.5 * bench.arguments.pattern[0]) & (values < bench.arguments.pattern[0])).all()
            assert not any(torch.equal(values, other) for other in x[:position])
        assert all(output.isnan().all() for slot in range(4) for output in bench.memory.outputs(slot))
    long = X.model_copy(update={"shape": (600, 5)})  # few rows may be moved alike twice
    inputs = (long.model_copy(update={"dtype": "int64"}), SIGNATURE.inputs[1])
    whole = SIGNATURE.model_copy(update={"inputs": inputs, "outputs": (long.model_copy(update={"name": "y"}),)})
    source = SOURCE.replace("torch.rand(6, 5) + 1", "torch.randint(99, (600, 5))")
    with bench_of(right, source=source, signature=whole) as bench:
        bench.arguments.settle(5)
        judging.fill_for_timing(bench)
        x = [bench.memory.views[slot]["x"] for slot in range(4)]
        assert not any(torch.equal(one, other) for position, one in enumerate(x) for other in x[:position])


def test_what_timed_calls_may_be_off_by_follows_from_pytorchs_own_error_on_such_inputs():
    trials = [
        trial(error(0.1, 0.01), error(0.5, 0.0)),
        trial(error(9.0, 9.0), error(9.0, 9.0), distribution="wide"),
        trial(error(0.2, 0.02), error(0.1, 0.3), distribution="stirred"),
    ]
    assert judging.timed_allowances(trials) == [pytest.approx(3 * 0.02), pytest.approx(3 * 0.3)]
    loose = [trial(error(0.9, 0.01)), trial(error(0.9, 0.02), distribution="stirred")]
    assert judging.timed_allowances(loose) == [pytest.approx(3 * 0.02)], "whatever the candidate's own error was"


def verify(bench, slot, allowed):
    outputs = TimedOutputs(bench, [allowed])
    outputs.called.add(slot)
    outputs.at_the_end(1)


@pytest.mark.parametrize(("off", "passes"), [(0.0, True), (0.19, True), (0.21, False), (math.nan, False)])
def test_a_timed_output_is_held_to_its_allowance(off, passes):
    """Of zeros all outputs are the number, which is their rms as well: an error of twice that is a scaled one of 1."""
    with bench_of(right) as bench:
        bench.memory.views[1]["x"].zero_()
        shift = bench.arguments.numbers[1]["shift"]
        outputs = bench.memory.views[1]["y"].fill_(shift)
        outputs[3, 4] += off * 2 * shift
        if passes:
            verify(bench, 1, 0.2)
        else:
            with pytest.raises(CandidateFailedError, match="While timed, y came out wrong") as refused:
                verify(bench, 1, 0.2)
            assert (refused.value.status, refused.value.check) == ("refused", "timed_output")


SUM = SOURCE.replace("x * self.scale + shift", "(x * self.scale + shift).sum()").replace(
    "rand(6, 5) + 1", "randn(6, 5)"
)
SUMMED = SIGNATURE.model_copy(update={"outputs": (TensorSpec(name="y", shape=(), strides=(), dtype="float32"),)})


def test_a_timed_sum_that_came_out_near_zero_is_held_to_what_such_sums_are():
    with bench_of(right, source=SUM, signature=SUMMED, op_class="reduction") as bench:
        judging.fill_for_timing(bench)
        x = bench.memory.views[1]["x"].zero_()
        bench.memory.views[1]["scale"][0] = 1.0
        x[0, 0], bench.arguments.numbers[1]["shift"] = 1e-4, 0.0
        bench.memory.views[1]["y"].fill_(1e-4 + 1e-7)  # nothing beside sums of about 9
        outputs = TimedOutputs(bench, [1e-6])
        outputs.called.add(1)
        outputs.at_the_end(1)
        assert not outputs.called, "other inputs lie there now"
        assert x.std() > 0.1
        bench.memory.views[2]["y"].fill_(float(bench.arguments.results(2)[0]) + 0.1)
        outputs.called.add(2)
        with pytest.raises(CandidateFailedError, match="y came out wrong"):
            outputs.at_the_end(1)


def test_what_the_oracle_finds_right_among_many_elements_is_not_asked_of_it_again():
    large = X.model_copy(update={"shape": (600, 5)})
    signature = SIGNATURE.model_copy(
        update={"inputs": (large, SIGNATURE.inputs[1]), "outputs": (large.model_copy(update={"name": "y"}),)}
    )
    random.seed(1)
    torch.manual_seed(1)  # PyTorch's own error must not happen to be far below a unit
    with bench_of(right, source=SOURCE.replace("rand(6, 5)", "rand(600, 5)"), signature=signature) as bench:
        judging.fill_for_timing(bench)
        (exact,) = bench.arguments.results(1)
        y = bench.memory.views[1]["y"].copy_(exact)
        y[7, 3] += 9 * torch.finfo(torch.float32).eps * (exact[7, 3].abs() + exact.square().mean().sqrt())
        outputs = TimedOutputs(bench, [0.0])
        outputs.called.add(1)
        outputs.at_the_end(1)
        assert outputs.called == {1}
        del bench.oracle
        outputs.at_the_end(1)
        y[7, 3] *= 1.0001
        with pytest.raises(AttributeError, match="oracle"):
            outputs.at_the_end(1)


def test_exact_timed_outputs_are_exact_and_others_have_a_few_units():
    whole = Signature(inputs=(X,), outputs=(X.model_copy(update={"name": "y", "dtype": "int64"}),))
    source = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x.long()\n"
    source += "def get_inputs():\n    return [torch.ones(6, 5)]\n"
    with bench_of(right, source=source, signature=whole) as bench:
        bench.memory.views[0]["x"].fill_(4)
        bench.memory.views[0]["y"].fill_(4)
        verify(bench, 0, 0.0)
        bench.memory.views[0]["y"][5, 4] = 5
        with pytest.raises(CandidateFailedError):
            verify(bench, 0, 0.0)
    with bench_of(right) as bench:
        bench.memory.views[0]["x"].zero_()
        outputs, unit = bench.memory.views[0]["y"].fill_(0.5), torch.finfo(torch.float32).eps
        outputs[0, 0] = 0.5 + 7 * unit
        verify(bench, 0, 0.0)
        outputs[0, 0] = 0.5 + 200 * unit
        with pytest.raises(CandidateFailedError):
            verify(bench, 0, 0.0)


def timed(bench, incumbent=None):
    judging.check(bench, JOB, trials := [])
    return judging._timed(bench, JOB, 20.0, (incumbent, None), trials)


def test_a_right_kernel_is_timed():
    with bench_of(right) as bench:
        timing = timed(bench)
    assert (timing.rounds, timing.head_to_head) == (8, None)


@pytest.mark.parametrize("narrow", [True, False])
def test_a_reference_that_refuses_later_inputs_is_timed_on_those_of_the_file(narrow):
    """Either it never took stirred inputs, or it did so at first."""
    picky = SOURCE.replace("        return x", "        assert float(x.min()) >= 1\n        return x")
    with bench_of(right, source=picky) as bench:
        judging.check(bench, JOB, trials := [])
        assert bench.arguments.manner == "given"
        bench.arguments.manner = "given" if narrow else "stirred"
        timing = judging._timed(bench, JOB, 20.0, (None, None), trials)
        assert (timing.rounds, bench.arguments.manner) == (8, "given")
    with (
        bench_of(right, source=picky.replace(">= 1", ">= 9")) as bench,
        pytest.raises(UserError, match="forward raised"),
    ):
        judging._timed(bench, JOB, 20.0, (None, None), trials)


def test_a_kernel_that_turns_wrong_after_its_trials_is_refused():
    calls = count()

    def turns(views, numbers):
        right(views, numbers)
        views["y"][0, 0] += next(calls) > len(ORDER) + 10

    with bench_of(turns) as bench, pytest.raises(CandidateFailedError) as refused:
        timed(bench)
    assert refused.value.check == "timed_output"


def test_a_kernel_that_answers_first_and_works_then_is_refused():
    """Its calls write half the output; the other half comes when the next order is there."""
    late, calls = [], count()

    def answers_early(views, numbers):
        if next(calls) <= 3 * len(ORDER):
            right(views, numbers)
            return
        wanted = views["x"] * views["scale"] + numbers["shift"]
        for output, half in late:
            output[3:] = half
        late[:] = [*late[-8:], (views["y"], wanted[3:])]
        views["y"][:3] = wanted[:3]

    with bench_of(answers_early, slots=1) as bench, pytest.raises(CandidateFailedError) as refused:
        timed(bench)
    assert refused.value.check in ("clock", "timed_output")


def test_a_rival_that_fails_while_timed_is_left_out():
    def fails(views, numbers):
        raise FailedError("exception", "gone bad")

    with bench_of(right) as bench:
        for kernel, there in ((right, True), (fails, False)):
            memory = bench.memory.beside()
            with runner_of(kernel, memory, bench.arguments.numbers) as link:
                descriptor = link._socket.detach()
                incumbent = judging._incumbent(
                    bench, IncumbentRunner(digest="r", pid=link._pid, library="r.so"), descriptor
                )
                assert incumbent.digest == "r"
                incumbent.kernel.memory.views[:] = memory.views
                assert (timed(bench, incumbent).head_to_head is not None) is there


def test_as_many_slots_as_it_takes_to_leave_the_cache():
    device, each = HostDevice(1 << 12), slot_bytes(SIGNATURE)

    def slots(target, room=1 << 40):
        asked = JOB.model_copy(update={"slot_target_bytes": target, "memory_bytes": room})
        return judging._slot_count(SIGNATURE, asked, device)

    assert slots(0) == slots(each) == slots(2 * each) == 2
    assert slots(2 * each + 1) == slots(3 * each) == 3
    assert slots(1 << 50) == judging.MAX_SLOTS
    assert slots(1 << 50, 5 * each) == 5
    assert slots(1 << 50, each // 2) == 1


def test_by_turns_each_workload_has_its_own_slot_and_number():
    trials = []
    wide = TensorSpec(name="x", shape=(6, 5), strides=(5, 1), dtype="float32")
    assert wide == X
    with bench_of(right, slots=2) as bench:
        bench.arguments.numbers[1] = bench.arguments.numbers[0]
        for position in range(4):
            mixing._try_one(bench, position, (1 << 31) - 2, trials)
    assert [each.distribution for each in trials] == ["normal", "normal", "given", "given"]
    assert [each.seed for each in trials] == [(1 << 31) - 2, (1 << 31) - 1, 0, 1]
