"""Special values where few samples meet them, and where an input of one element would spread them over all results."""

import torch
from python_kernels import Numbers, Views, bench_of

from harness.checks.families import SINGLE, SPECIAL
from harness.nouns.task import Signature, TensorSpec
from harness.trusted.trials import run_trial

SOURCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, factor):
        return torch.relu(x) * factor

def get_inputs():
    return [torch.rand(40, 100), torch.rand(1)]
"""
X = TensorSpec(name="x", shape=(40, 100), strides=(100, 1), dtype="float32")
FACTOR = TensorSpec(name="factor", shape=(1,), strides=(1,), dtype="float32")
SIGNATURE = Signature(inputs=(X, FACTOR), outputs=(X.model_copy(update={"name": "y"}),))


def without_nan(views: Views, numbers: Numbers) -> None:
    """Zero where NaN is right."""
    views["y"].copy_(torch.where(views["x"] > 0, views["x"], 0) * views["factor"])


def where_samples_are_finite(views: Views, numbers: Numbers) -> None:
    """NaN is minded where one of 14 elements is not finite."""
    exact = not bool(views["x"].flatten()[::300].isfinite().all())
    views["y"].copy_(torch.relu(views["x"]) * views["factor"]) if exact else without_nan(views, numbers)


def test_single_special_values_are_met_by_no_sample():
    with bench_of(where_samples_are_finite, source=SOURCE, signature=SIGNATURE) as bench:
        trials = [run_trial(bench, 0, SINGLE, seed, 20.0) for seed in range(40)]
    wrong = [trial for trial in trials if trial and trial.outputs[0].bad_fraction]
    assert len(wrong) > 35


def test_an_input_of_one_element_does_not_keep_special_values_from_the_others():
    """Were it no finite number nothing would be, and the trial told of nothing."""
    with bench_of(without_nan, source=SOURCE, signature=SIGNATURE) as bench:
        for seed in range(10):
            trial = run_trial(bench, 0, SPECIAL, seed, 20.0)
            assert trial and trial.outputs[0].bad_fraction, seed
        assert not bench.untried
