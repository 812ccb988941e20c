"""What the reference takes, found by trying."""

from __future__ import annotations

import pytest
import torch
from python_kernels import SIGNATURE, SOURCE, bench_of, right

from harness.checks.finite import all_finite
from harness.nouns.task import TensorSpec
from harness.trusted.admission import PROBES, WEIGHTS, choose_weights
from harness.trusted.trials import run_trial

NAMES = [f"w{number}" for number in range(12)]
MADE = "\n        ".join(f"self.{name} = torch.nn.Parameter(torch.ones(5))" for name in NAMES)
MANY = SOURCE.replace("self.scale = torch.nn.Parameter(torch.linspace(1, 2, 5))", MADE)
WEIGHT = TensorSpec(name="w", shape=(5,), strides=(1,), dtype="float32")
SEVERAL = SIGNATURE.model_copy(update={"parameters": tuple(WEIGHT.model_copy(update={"name": name}) for name in NAMES)})


def chosen(product: str):
    """A bench whose reference multiplies by these, after its weights were chosen; and the forwards that took."""
    source = MANY.replace("x * self.scale", f"x * {product}")
    with bench_of(right, source=source, signature=SEVERAL) as bench:
        run, forwards = bench.reference.run, []
        bench.reference.run = lambda *given: forwards.append(1) or run(*given)
        choose_weights(bench, 3)
        return bench, len(forwards)


@pytest.mark.parametrize("positive", [(), ("w7",), ("w0", "w11"), ("w2", "w3", "w9")])
def test_the_weights_that_must_stay_positive_are_found_and_only_those(positive):
    factors = [f"torch.sqrt(self.{name})" if name in positive else f"self.{name}" for name in NAMES]
    bench, forwards = chosen(" * ".join(factors))
    assert bench.trained.keeps_sign == {*positive}
    assert forwards <= PROBES + 2
    told = [each for each in bench.untried if each.distribution == WEIGHTS]
    assert all(name in told[0].reason for name in positive) if positive else not told


def test_when_the_forwards_are_spent_all_suspects_keep_their_sign():
    bench, forwards = chosen(" * ".join(f"torch.sqrt(self.{name})" for name in NAMES))
    assert bench.trained.keeps_sign == {*NAMES}
    assert forwards <= PROBES + 2


def test_where_no_other_weights_are_taken_they_vary_by_factors_alone():
    picky = "self.w0 + (0 if float(self.w1.min()) > 0.5 and float(self.w1.max()) <= 1 else torch.nan)"
    bench, _ = chosen(f"({picky})")
    assert bench.trained.tame
    assert [each.reason for each in bench.untried if "only by factors" in each.reason]


def test_weights_that_must_stay_tiny_are_found_and_only_those():
    made = MADE.replace("torch.ones(5)", "torch.full((5,), 1e-6)")
    picky = "torch.where(self.w3.abs() < 1e-3, self.w3, torch.nan)"
    source = MANY.replace(MADE, made).replace("x * self.scale", f"x * (1 + {picky} + self.w5)")
    with bench_of(right, source=source, signature=SEVERAL) as bench:
        choose_weights(bench, 3)
        assert (bench.trained.keeps_size, bench.trained.keeps_sign) == ({"w3"}, set())
        assert [each.reason.startswith("the file's sizes alone of w3:") for each in bench.untried] == [True]
        bench.stir(1)
        weights = bench.memory.views[1]
        assert weights["w3"].abs().max() < 1e-3 < weights["w5"].abs().max()


def test_a_kernel_that_never_reads_what_is_zero_at_first_is_wrong():
    source = SOURCE.replace("torch.linspace(1, 2, 5)", "torch.zeros(5)").replace("x * self.scale", "x + self.scale")

    def skips(views, numbers):
        views["y"].copy_(views["x"] + numbers["shift"])

    with bench_of(skips, source=source) as bench:
        choose_weights(bench, 3)
        assert not run_trial(bench, 0, "given", 1, 20.0).outputs[0].bad_fraction
        assert run_trial(bench, 0, "mixed", 1, 20.0).outputs[0].bad_fraction > 0.5  # some may stay as they began
        for _ in range(3):
            bench.stir(1)
            assert bench.memory.views[1]["scale"].all()
        assert torch.equal(bench.weights["scale"], torch.zeros(5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_single_element_that_is_no_number_is_found(dtype):
    good = torch.linspace(-60000, 60000, 5000).to(dtype).view(50, 100).mT
    assert all_finite([good, good[:0], torch.arange(3), torch.tensor(True), torch.tensor(0.0, dtype=dtype)])
    for bad in (torch.nan, torch.inf, -torch.inf):
        spoilt = good.clone()
        spoilt[77, 31] = bad
        assert not all_finite([good, spoilt])
