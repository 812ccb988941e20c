"""One trial: what is filled in, what is called, what is looked at afterwards."""

from __future__ import annotations

import math
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from python_kernels import JOB, SIGNATURE, SOURCE, FailedError, X, bench_of, right

from harness.checks.families import PLANS
from harness.checks.stirring import TOUCHED
from harness.nouns.task import Signature, TensorSpec, TraceFacts
from harness.nouns.verdict import Trial
from harness.trusted import scalar_arguments
from harness.trusted.admission import choose_manner
from harness.trusted.comparison import errors_of
from harness.trusted.host_device import HostDevice
from harness.trusted.jobs import judging
from harness.trusted.link import CandidateFailedError
from harness.trusted.trials import MOST_TERMS, not_asked, plan_trials, run_trial
from harness.wire.layout import GUARD

TRIANGLE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, shift):
        if (x.abs() > 100).any():
            raise ValueError("too large for me")
        return x + shift

def get_inputs():
    return [torch.rand(6, 5), 0.5]
"""
PLAIN = SIGNATURE.model_copy(update={"parameters": ()})


ORDER = PLANS["elementwise"]


@given(st.integers(0, (1 << 31) - 1))
def test_the_plan_follows_from_the_seed(seed):
    plan = list(plan_trials(seed, "elementwise"))
    assert [distribution for distribution, _ in plan] == list(ORDER)
    seeds = [each for _, each in plan]
    assert seeds[0] == seed
    assert len(set(seeds)) == len(ORDER)
    assert all(0 <= each < 1 << 31 for each in seeds)
    assert plan == list(plan_trials(seed, "elementwise"))
    assert list(plan_trials(seed, "elementwise", given_seed=0)) == [("given", 0), *plan]


def test_a_right_kernel_is_right_on_every_distribution():
    with bench_of(right) as bench:
        for distribution, seed in plan_trials(3, "elementwise"):
            trial = run_trial(bench, 1, distribution, seed, 20.0)
            (error,) = trial.outputs
            assert (trial.distribution, trial.seed, trial.repeatable) == (distribution, seed, None)
            assert (error.output, error.bad_fraction) == ("y", 0)
        assert bench.influence.family == "wide"


def test_a_kernel_that_bakes_weights_or_numbers_in_is_wrong():
    def baked(views, numbers):
        views["y"].copy_(views["x"] * torch.linspace(1, 2, 5) + 0.5)

    with bench_of(baked) as bench:
        wrong = [bool(run_trial(bench, slot, "normal", 1, 20.0).outputs[0].bad_fraction) for slot in (0, 1)]
        assert wrong == [True, True]  # other weights
        assert not run_trial(bench, 0, "given", 1, 20.0).outputs[0].bad_fraction
        assert run_trial(bench, 1, "given", 1, 20.0).outputs[0].bad_fraction == 1  # another number


SUM = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x.sum()

def get_inputs():
    return [torch.randn(40, 100)]
"""
SUMMED = Signature(
    inputs=(X.model_copy(update={"shape": (40, 100), "strides": (100, 1)}),),
    outputs=(TensorSpec(name="y", shape=(), strides=(), dtype="float32"),),
)


def lanes(views, numbers):
    views["y"].copy_(sum(sum(views["x"].view(-1, 16).unbind(0)).unbind(0)))


def test_a_single_sum_in_another_order_is_right_whatever_the_seed():
    with bench_of(lanes, source=SUM, signature=SUMMED, op_class="reduction") as bench:
        for seed in range(20):
            for distribution in ("wide", "normal"):
                (error,) = run_trial(bench, 0, distribution, seed, 20.0).outputs
                assert error.bad_fraction == 0, (seed, distribution)


SHARES_NOTHING = SimpleNamespace(ambiguous=False, shared=dict)


@pytest.mark.parametrize(("terms", "divided"), [(100, False), (MOST_TERMS, True)])
def test_a_sum_without_its_subnormals_is_wrong_and_one_of_divided_terms_right(terms, divided):
    rows = X.model_copy(update={"shape": (16, terms), "strides": (terms, 1)})
    signature = Signature(
        inputs=(rows,), outputs=(X.model_copy(update={"name": "y", "shape": (16,), "strides": (1,)}),)
    )
    source = SUM.replace("x.sum()", "x.mean(1)").replace("40, 100", f"16, {terms}")
    smallest = torch.finfo(torch.float32).smallest_normal

    def kernel(views, numbers):
        x = views["x"]
        views["y"].copy_((x / terms).sum(1) if divided else torch.where(x.abs() < smallest, 0.0, x).mean(1))

    with bench_of(kernel, source=source, signature=signature, op_class="reduction") as bench:
        for seed in range(3):
            assert run_trial(bench, 0, "small", seed, 20.0).outputs[0].bad_fraction == 0
            (error,) = run_trial(bench, 0, "subnormal", seed, 20.0).outputs
            assert (error.bad_fraction > 0) is not divided and (error.max_scaled < 0.02) is divided


@pytest.mark.parametrize(
    ("changed", "asked"),
    [
        ({}, True),
        ({"adds": False}, False),
        ({"device": SimpleNamespace(kind="cuda")}, False),
        (
            {"signature": SUMMED.model_copy(update={"inputs": (X.model_copy(update={"shape": (MOST_TERMS + 1,)}),)})},
            False,
        ),
        ({"adds": False, "op_class": "elementwise"}, True),
    ],
)
def test_reductions_have_subnormals_where_no_honest_one_loses_them(changed, asked):
    traced = {"op_class": "reduction", "adds": True}
    usual = {"device": SimpleNamespace(kind="cpu"), "signature": SUMMED}
    facts = TraceFacts(**{name: changed.get(name, value) for name, value in traced.items()})
    known = {name: changed.get(name, value) for name, value in usual.items()}
    forward = SimpleNamespace(direction="forward")
    without = not_asked(SimpleNamespace(facts=facts, arguments=SHARES_NOTHING, reference=forward, **known))
    assert ("subnormal" not in without) is asked
    families = [family for family, _ in plan_trials(3, "reduction", without=without)]
    assert families == [each for each in PLANS["reduction"] if each != "shared" and (asked or each != "subnormal")]


@pytest.mark.parametrize(("ambiguous", "direction"), [(True, "forward"), (False, "backward"), (False, "both")])
def test_nothing_is_no_trial_where_all_would_be_ties(ambiguous, direction):
    bench = SimpleNamespace(
        facts=TraceFacts(op_class="reduction"), arguments=SimpleNamespace(ambiguous=ambiguous, shared=dict),
        reference=SimpleNamespace(direction=direction), device=SimpleNamespace(kind="cpu"), signature=SUMMED,
    )  # fmt: skip
    assert "nothing" in not_asked(bench)


def test_a_doubtful_sum_is_measured_beside_others_and_its_inputs_stay():
    def rough(views, numbers):
        views["y"].copy_(views["x"].bfloat16().float().sum())

    with bench_of(rough, source=SUM, signature=SUMMED, op_class="reduction") as bench:
        bench.arguments.fill(1, 5, "normal")
        inputs = bench.memory.views[1]["x"].clone()
        (error,) = run_trial(bench, 1, "normal", 5, 20.0).outputs
        assert (error.bad_fraction, error.first_bad.index) == (1, ())
        assert error.max_scaled < 1e-2, "by the scale of all draws, however near to zero this sum came"
        assert torch.equal(bench.memory.views[1]["x"], inputs)


ROUNDED = SUM.replace("x.sum()", "(x * 0.7).round()")


def test_a_number_rounded_to_the_other_side_of_a_step_is_right_in_a_trial_and_in_a_repeated_one():
    """One multiplication in another order: in float64 all of these are 2.5, and 2.4999998 or 2.5000002 in float32."""
    signature = SUMMED.model_copy(update={"outputs": (SUMMED.inputs[0].model_copy(update={"name": "y"}),)})

    def other(views, numbers):
        views["x"][0, :50] = torch.tensor(2.5 / 0.7)
        views["y"].copy_((views["x"] * 0.7).round())
        views["y"][0, :50] = 5 - views["y"][0, :50]

    for steps, wrong in ((True, 0), (False, 50 / 4000)):
        with bench_of(other, source=ROUNDED, signature=signature, op_class="elementwise") as bench:
            bench.facts = bench.facts.model_copy(update={"steps": steps})
            bench.device.seals = True
            (error,) = run_trial(bench, 0, "normal", 5, 20.0).outputs
            assert error.bad_fraction == wrong


def test_what_is_left_unwritten_is_wrong_whatever_was_there_before():
    def lazy(views, numbers):
        if calls:
            return
        calls.append(1)
        right(views, numbers)

    calls = []
    with bench_of(lazy) as bench:
        assert not run_trial(bench, 0, "given", 1, 20.0).outputs[0].bad_fraction
        again = run_trial(bench, 0, "given", 1, 20.0).outputs[0]
        assert (again.bad_fraction, again.pattern) == (1, "never written (or NaN), all elements")


@pytest.mark.parametrize(("place", "side"), [(-1, "before"), (GUARD - 1, "after")])
def test_a_byte_beside_an_output_is_out_of_bounds(place, side):
    def overrun(views, numbers):
        right(views, numbers)
        output = bench.memory.layout.places[0]["y"].offset
        bench.memory.written.raw[output + place if place < 0 else output + 6 * 5 * 4 + place] = 1

    with bench_of(overrun) as bench, pytest.raises(CandidateFailedError, match=f"1 bytes just {side} the") as failure:
        run_trial(bench, 0, "given", 1, 20.0)
    assert (failure.value.status, failure.value.check) == ("crashed", "out_of_bounds")


class Unsealed(HostDevice):
    """A device where the judge cannot keep others from writing to inputs, as on a GPU."""

    seals = False


def test_changed_inputs_are_seen_where_they_cannot_be_sealed():
    def writes(views, numbers):
        right(views, numbers)
        views["x"][2, 3] += 1

    with bench_of(writes, device=Unsealed(1 << 12)) as bench:
        with pytest.raises(CandidateFailedError, match="changed its inputs") as failure:
            run_trial(bench, 0, "given", 1, 20.0)
        assert (failure.value.status, failure.value.check) == ("crashed", "inputs")
    with bench_of(right, device=Unsealed(1 << 12)) as bench:
        assert run_trial(bench, 0, "given", 1, 20.0)


def test_inputs_that_the_forward_itself_refuses_say_nothing_of_the_kernel():
    def picky(views, numbers):
        if (views["x"].abs() > limit).any():
            raise FailedError("exception", "too large for me")
        views["y"].copy_(views["x"] + numbers["shift"])

    limit = 100
    with bench_of(picky, source=TRIANGLE, signature=PLAIN) as bench:
        assert run_trial(bench, 0, "wide", 1, 20.0).mild == 2, "in the file's own range it is accepted"
        assert run_trial(bench, 0, "given", 1, 20.0)
        limit = 0.1
        with pytest.raises(CandidateFailedError, match="too large for me"):
            run_trial(bench, 0, "given", 1, 20.0)
    with bench_of(lambda views, numbers: None, source=TRIANGLE, signature=PLAIN) as bench:
        assert run_trial(bench, 0, "wide", 1, 20.0).outputs[0].bad_fraction


def test_a_slot_is_filled_with_its_distribution_and_weights_of_its_own():
    with bench_of(right) as bench:
        weights = bench.arguments.weights["scale"]
        bench.arguments.fill(0, 11, "given")
        assert torch.equal(bench.memory.views[0]["x"], bench.reference.inputs(11)[0])
        assert torch.equal(bench.memory.views[0]["scale"], weights)
        bench.arguments.fill(1, 11, "small")
        assert bench.memory.views[1]["x"].abs().max() < 1e-4
        ratio = bench.memory.views[1]["scale"] / weights
        assert ((ratio.abs() >= 0.5) & (ratio.abs() < 1.5)).all()
        assert ratio.unique().numel() > 1
        bench.arguments.fill(2, 5, "stirred")
        assert (bench.memory.views[2]["x"] < bench.reference.inputs(5)[0]).all()
        assert bench.arguments.inputs(2)[1] == bench.arguments.numbers[2]["shift"]
        again = bench.memory.views[2]["x"].clone()
        bench.arguments.fill(2, 5, "stirred")
        assert torch.equal(bench.memory.views[2]["x"], again)


@pytest.mark.parametrize(("strides", "row"), [((0, 1), torch.arange(5.0)), ((1, 0), torch.arange(6.0).unsqueeze(1))])
def test_an_expanded_input_is_filled_through_its_one_element(strides, row):
    wide = TensorSpec(name="x", shape=(6, 5), strides=strides, dtype="float32")
    expanded = PLAIN.model_copy(update={"inputs": (wide, PLAIN.inputs[1])})
    text = "torch.arange(5.0)" if strides == (0, 1) else "torch.arange(6.0).unsqueeze(1)"
    source = TRIANGLE.replace("torch.rand(6, 5)", f"{text}.expand(6, 5)")
    with bench_of(right, source=source, signature=expanded) as bench:
        bench.arguments.fill(0, 1, "given")
        assert torch.equal(bench.memory.views[0]["x"], row.expand(6, 5))
        bench.arguments.stir(0)
        ratio = (bench.memory.views[0]["x"] / row)[(row != 0).expand(6, 5)]
        assert ((ratio >= 0.5) & (ratio < 1)).all()


def test_stirring_starts_from_what_the_file_gave_every_time():
    with bench_of(right) as bench:
        plain, weights = bench.arguments.pattern[0], bench.arguments.weights["scale"]
        for _ in range(20):
            bench.arguments.stir(0)
        x, scale = bench.memory.views[0]["x"], bench.memory.views[0]["scale"]
        assert ((x >= 0.5 * plain) & (x < plain)).all()
        assert (x / plain).unique().numel() > 3
        assert ((scale.abs() >= 0.25 * weights) & (scale.abs() < 1.5 * weights)).all()


@pytest.mark.parametrize(
    ("function", "manner"),
    [
        ("x", "mixed"),
        ("torch.where(x.abs() > 3.9, torch.nan, x)", "mixed within"),
        ("torch.log(x)", "mixed upwards"),
        ("torch.log(2 - x)", "mixed within"),
        ("torch.acosh(x)", "given"),  # the file gives what lies in [1, 2), stirred inputs begin at 0.5
        ("torch.log(x - 3)", "stirred"),  # nothing is finite to begin with
    ],
)
def test_timed_inputs_are_as_various_as_the_reference_takes_them(function, manner):
    with bench_of(right, source=SOURCE.replace("x * self.scale", f"{function} * self.scale")) as bench:
        choose_manner(bench, 3, various=False)
        assert bench.arguments.manner == ("given" if manner == "given" else "stirred")
        assert bench.untried == []
        choose_manner(bench, 3)
        assert bench.arguments.manner == manner
        assert [each.distribution for each in bench.untried] == ["stirred"] * (manner != "mixed")
        bench.arguments.stir(0)
        x = bench.memory.views[0]["x"]
        assert bool((x < 0).any()) <= (manner == "mixed")
        assert bool(((x < 0) | (x >= 2)).any()) is (manner in ("mixed", "mixed upwards"))
        assert bool((x.abs() < 1).any()) is (manner != "given")


def test_a_reference_that_refuses_stirred_inputs_is_timed_on_others_that_the_file_gives():
    picky = SOURCE.replace("        return x", "        assert float(x.min()) >= 1\n        return x")
    with bench_of(right, source=picky) as bench:
        choose_manner(bench, 3)
        x, scale = bench.memory.views[0]["x"], bench.memory.views[0]["scale"]
        bench.arguments.stir(0)
        first, weights = x.clone(), scale.clone()
        bench.arguments.touch(0, bench.arguments.touchable())
        assert torch.equal(x, first) and not torch.equal(scale, weights)
        bench.arguments.stir(0)
        assert ((x >= 1) & (x < 2) & (x != first)).all()
        assert run_trial(bench, 0, "stirred", 5, 10.0) is not None
        bench.reference.run(bench.arguments.inputs(0))


def test_planted_inputs_are_the_files_own_but_for_a_few_elements():
    with bench_of(right) as bench:
        bench.arguments.manner, plain, x = "mixed", bench.arguments.pattern[0], bench.memory.views[0]["x"]
        bench.arguments.plant(0)
        foreign = (x < 0.5 * plain) | (x > plain)
        assert 0 < int(foreign.sum()) <= 16


def test_touching_changes_a_few_elements_by_factors():
    with bench_of(right) as bench:
        x = bench.memory.views[0]["x"].copy_(torch.rand(6, 5) + 1)
        x[0] = 0
        scale = bench.memory.views[0]["scale"].fill_(1)
        before = x.clone()
        bench.arguments.touch(0, bench.arguments.touchable())
        changed = x != before
        assert 0 < int(changed.sum()) <= TOUCHED
        assert not changed[0].any()  # zeros survive
        ratio = (x / before)[changed]
        assert ((ratio >= 0.6**9) & (ratio <= 2)).all()
        assert (scale != 1).any()


def test_of_a_square_the_diagonal_is_touched_and_without_fractions_the_weights():
    square = TensorSpec(name="x", shape=(3, 7, 7), strides=(49, 7, 1), dtype="bfloat16")
    whole = TensorSpec(name="x", shape=(6, 5), strides=(5, 1), dtype="int64")
    shift = SIGNATURE.inputs[1]
    with bench_of(right, signature=SIGNATURE.model_copy(update={"inputs": (square, shift)})) as bench:
        x = bench.memory.views[0]["x"].fill_(1)
        bench.arguments.touch(0, bench.arguments.touchable())
        assert 0 < int((x != 1).sum()) == int((x.diagonal(dim1=1, dim2=2) != 1).sum())
    with bench_of(right, signature=SIGNATURE.model_copy(update={"inputs": (whole, shift)})) as bench:
        x, scale = bench.memory.views[0]["x"].fill_(4), bench.memory.views[0]["scale"].fill_(1)
        bench.arguments.touch(0, bench.arguments.touchable())
        assert (x == 4).all()
        assert (scale != 1).any()


@pytest.mark.parametrize("op_class", ["elementwise", "gemm", "reduction", "other"])
def test_the_class_says_what_counts_among_special_values(op_class):
    """The kernel says infinity where NaN is right, then NaN where infinity is."""
    spec = TensorSpec(name="x", shape=(6,), strides=(1,), dtype="float32")
    signature = Signature(inputs=(spec,), outputs=(spec.model_copy(update={"name": "y"}),))
    source = (
        SOURCE.replace("x, shift", "x").replace("x * self.scale + shift", "x + 0").replace("(6, 5) + 1, 0.5", "(6)")
    )
    with bench_of(right, source=source, signature=signature, op_class=op_class) as bench:
        views = bench.memory.views[0]
        views["x"].copy_(torch.tensor([1, 1, 1, math.nan, math.nan, math.nan]))
        views["y"].copy_(torch.tensor([1, 1, 1, math.inf, math.inf, math.inf]))
        special, normal = (Trial(distribution=name, seed=1, outputs=()) for name in ("special", "normal"))
        forgiven = 0 if op_class in ("gemm", "reduction") else 0.5
        assert errors_of(bench, 0, special)[0].bad_fraction == forgiven
        assert errors_of(bench, 0, normal)[0].bad_fraction == 0.5
        views["x"].copy_(torch.tensor([1, 1, 1, math.inf, math.inf, math.inf]))
        views["y"].copy_(torch.tensor([1, 1, 1, math.nan, math.nan, math.nan]))
        assert errors_of(bench, 0, special)[0].bad_fraction == forgiven


def test_numbers_differ_from_slot_to_slot_and_the_first_ones_are_the_files():
    shifts = [scalar_arguments.slot_numbers(SIGNATURE, slot)["shift"] for slot in range(scalar_arguments.STEPS + 1)]
    assert shifts[0] == shifts[scalar_arguments.STEPS] == 0.5
    assert max(Counter(shifts[:-1]).values()) == 1
    zero = SIGNATURE.inputs[1].model_copy(update={"value": 0.0})
    flag = zero.model_copy(update={"name": "flag", "type": "bool", "value": True})
    axis = zero.model_copy(update={"name": "axis", "type": "int", "value": 1})
    numbers = scalar_arguments.slot_numbers(SIGNATURE.model_copy(update={"inputs": (X, zero, flag, axis)}), 3)
    assert numbers == {"shift": 0.75, "flag": True, "axis": 1}


def test_a_weight_and_an_input_without_axes_are_drawn_stirred_and_touched():
    number = TensorSpec(name="x", shape=(), strides=(), dtype="float32")
    scale = number.model_copy(update={"name": "scale"})
    signature = Signature(inputs=(number,), parameters=(scale,), outputs=(number.model_copy(update={"name": "y"}),))
    source = SOURCE.replace("x, shift", "x").replace("x * self.scale + shift", "x * self.scale")
    source = source.replace("torch.linspace(1, 2, 5)", "torch.tensor(0.7)").replace(
        "torch.rand(6, 5) + 1, 0.5", "torch.tensor(1.5)"
    )

    def product(views, numbers):
        views["y"].copy_(views["x"] * views["scale"])

    with bench_of(product, source=source, signature=signature) as bench:
        judging.check(bench, JOB, trials := [])
        assert len(trials) == len(ORDER) - 2, "no two inputs are alike, and of one element none is a number"
        views = bench.memory.views[0]
        for change in (bench.arguments.stir, lambda slot: bench.arguments.touch(slot, ["x", "scale"])):
            before = views["x"].clone(), views["scale"].clone()
            change(0)
            assert views["x"] != before[0] and views["scale"] != before[1]


LOOKED_UP = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.arange(9.0)[x.long()]

def get_inputs():
    return [torch.randint(0, 9, (40, 100)).float()]
"""


def test_indices_among_numbers_with_a_fraction_stay_indices_in_every_trial():
    seen = set()

    def look(views, numbers):
        assert torch.equal(views["x"], views["x"].floor()), "an index is whole"
        seen.update(views["x"].unique().tolist())
        views["y"].copy_(views["x"])

    signature = SUMMED.model_copy(update={"outputs": (SUMMED.inputs[0].model_copy(update={"name": "y"}),)})
    with bench_of(look, source=LOOKED_UP, signature=signature, op_class="other", indexed=frozenset({"x"})) as bench:
        for family in ("wide", "mixed", "negative"):
            assert not run_trial(bench, 0, family, 4, 20.0).outputs[0].bad_fraction
        bench.arguments.stir(0)
        look(bench.memory.views[0], {})
    assert seen == set(range(9))


SOUGHT = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.searchsorted(x, x + 0.25).float()

def get_inputs():
    return [torch.rand(40, 100).sort().values]
"""


def test_what_the_reference_takes_for_sorted_is_sorted_in_every_trial():
    seen = []

    def look(views, numbers):
        assert not views["x"].isnan().any() and torch.equal(views["x"], views["x"].sort().values)
        seen.append(views["x"].clone())
        views["y"].copy_(torch.searchsorted(views["x"], views["x"] + 0.25))

    signature = SUMMED.model_copy(update={"outputs": (SUMMED.inputs[0].model_copy(update={"name": "y"}),)})
    with bench_of(look, source=SOUGHT, signature=signature, op_class="other") as bench:
        bench.arguments.settle(1)
        for family in ("wide", "special", "masked"):
            assert not run_trial(bench, 0, family, 4, 20.0).outputs[0].bad_fraction
        bench.arguments.stir(0)
        bench.arguments.touch(0, ["x"])
        look(bench.memory.views[0], {})
    assert not any(torch.equal(seen[0], each) for each in seen[1:])
