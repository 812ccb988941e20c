"""Numbers among the inputs: which others the forward takes, and when a call is given them."""

from __future__ import annotations

import math

import pytest
from test_discrete_arguments import bench_for

from harness.checks.families import PLANS
from harness.nouns.task import Task
from harness.trusted.facts.describing import describe
from harness.trusted.trials import run_trial
from harness.wire.entry import stub

SOURCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, times: int, negate: bool, slope: float, size: int):
        y = x.new_ones(6).view(size).unsqueeze(1) * x * times + x.abs().sqrt() * slope
        return -y if negate else y

def get_inputs():
    return [torch.randn(6, 5), 3, True, 0.5, 6]
"""


def others(source):
    inputs = describe(source, "task")["workloads"][0]["signature"]["inputs"]
    return {spec["name"]: spec["others"] for spec in inputs if spec["kind"] == "scalar"}


def test_the_description_tells_which_numbers_the_forward_takes():
    found = others(SOURCE)
    assert found["times"] == [4, 2, 0, -3, 6]
    assert found["negate"] == [False]
    assert found["slope"] == [0.8125, 0.0, -0.5, 1.0, 3.0, 0.0625]
    assert found["size"] == []


@pytest.mark.parametrize(
    ("returned", "times"),
    [("-y.sum(times - 3)", []), ("torch.log(y * 0 + times - 2.5)", [4, 6]), ("y.repeat(times, 1)", [])],
)
def test_what_changes_shapes_or_leaves_the_finite_numbers_is_not_taken(returned, times):
    assert others(SOURCE.replace("-y if negate else y", returned))["times"] == times


def test_a_kernels_author_and_user_are_told_what_may_be_taken_for_fixed():
    text = stub(Task.model_validate(describe(SOURCE, "task")), "cpu")
    assert 'input "times", int, 3 here; in other calls 4, 2, 0, -3, 6 and more' in text
    assert 'input "size", int, 6 here and in every call: the caller checks it' in text


def computes(views, numbers):
    y = views["x"] * numbers["times"] + views["x"].abs().sqrt() * numbers["slope"]
    views["output"].copy_(-y if numbers["negate"] else y)


def test_trials_take_turns_at_numbers_and_timed_calls_find_others():
    with bench_for(SOURCE, computes) as bench:
        bench.arguments.settle(3)
        seen = []
        for number, distribution in enumerate(PLANS["other"]):
            trial = run_trial(bench, number % 2, distribution, 5, 20.0)
            assert trial.outputs[0].bad_fraction == 0
            seen.append(bench.arguments.numbers[number % 2])
        assert (seen[0]["times"], seen[0]["negate"], seen[0]["slope"]) == (3, True, 0.5)
        assert {each["times"] for each in seen} == {3, 4, 2, 0, -3, 6}
        assert {each["negate"] for each in seen} == {True, False}
        assert min(each["slope"] for each in seen) == -0.5
        timed = []
        for _ in range(100):
            bench.arguments.stir(0)
            timed.append(bench.arguments.numbers[0])
        assert 50 < sum(each["times"] == 3 for each in timed) < 100
        slopes = {bench.arguments.scalars.for_timed(0)["slope"] for _ in range(400)}
        assert len(slopes) > 20
        assert any(0 < each < 0.5 and each != 0.0625 for each in slopes), "between those that trials have"
        assert all(math.frexp(each)[0] * 2**12 % 1 == 0 for each in slopes), "few digits: differences are exact"
        assert all(each["size"] == 6 for each in timed + seen)


def test_where_zero_is_not_taken_a_number_keeps_one_sign():
    with bench_for(SOURCE.replace("* slope", "/ slope"), computes) as bench:
        bench.arguments.settle(3)
        found = [bench.arguments.scalars.for_timed(0)["slope"] for _ in range(400)]
        assert min(map(abs, found)) >= 0.0625
        assert min(found) < 0


def test_what_real_inputs_refuse_is_not_used():
    """The description may have seen shapes alone."""
    with bench_for(SOURCE.replace("y = x", "assert times > 2\n        y = x"), computes) as bench:
        bench.arguments.scalars._specs = [
            spec.model_copy(update={"others": (4, 2, -3)}) if spec.name == "times" else spec
            for spec in bench.arguments.scalars._specs
        ]
        bench.arguments.settle(3)
        for distribution in PLANS["other"]:
            bench.arguments.fill(1, 5, distribution)
            assert bench.arguments.numbers[1]["times"] in (3, 4)


def test_a_kernel_that_bakes_a_number_in_is_wrong():
    def baked(views, numbers):
        computes(views, {**numbers, "times": 3})

    with bench_for(SOURCE, baked) as bench:
        bench.arguments.settle(3)
        trials = [run_trial(bench, 0, distribution, 5, 20.0) for distribution in PLANS["other"]]
        wrong = [trial.distribution for trial in trials if trial and trial.outputs[0].bad_fraction]
        assert len(wrong) >= 3 and "given" not in wrong
