"""What the reference takes, found by trying."""

from __future__ import annotations

import pytest
import torch
from python_kernels import SIGNATURE, SOURCE, bench_of, right

from harness.checks.emptiness import all_finite
from harness.nouns.task import Signature, TensorSpec
from harness.trusted.admission import PROBES, WEIGHTS, choose_structure, choose_weights
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
    assert bench.arguments.trained.keeps_sign == {*positive}
    assert forwards <= PROBES + 2
    told = [each for each in bench.untried if each.distribution == WEIGHTS]
    assert all(name in told[0].reason for name in positive) if positive else not told


def test_when_the_forwards_are_spent_all_suspects_keep_their_sign():
    bench, forwards = chosen(" * ".join(f"torch.sqrt(self.{name})" for name in NAMES))
    assert bench.arguments.trained.keeps_sign == {*NAMES}
    assert forwards <= PROBES + 2


def test_where_no_other_weights_are_taken_they_vary_by_factors_alone():
    picky = "self.w0 + (0 if float(self.w1.min()) > 0.5 and float(self.w1.max()) <= 1 else torch.nan)"
    bench, _ = chosen(f"({picky})")
    assert bench.arguments.trained.tame
    assert [each.reason for each in bench.untried if "only by factors" in each.reason]


def test_weights_that_must_stay_tiny_are_found_and_only_those():
    made = MADE.replace("torch.ones(5)", "torch.full((5,), 1e-6)")
    picky = "torch.where(self.w3.abs() < 1e-3, self.w3, torch.nan)"
    source = MANY.replace(MADE, made).replace("x * self.scale", f"x * (1 + {picky} + self.w5)")
    with bench_of(right, source=source, signature=SEVERAL) as bench:
        choose_weights(bench, 3)
        assert (bench.arguments.trained.keeps_size, bench.arguments.trained.keeps_sign) == ({"w3"}, set())
        assert [each.reason.startswith("the file's sizes alone of w3:") for each in bench.untried] == [True]
        bench.arguments.stir(1)
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
            bench.arguments.stir(1)
            assert bench.memory.views[1]["scale"].all()
        assert torch.equal(bench.arguments.weights["scale"], torch.zeros(5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_single_element_that_is_no_number_is_found(dtype):
    good = torch.linspace(-60000, 60000, 5000).to(dtype).view(50, 100).mT
    assert all_finite([good, good[:0], torch.arange(3), torch.tensor(True), torch.tensor(0.0, dtype=dtype)])
    for bad in (torch.nan, torch.inf, -torch.inf):
        spoilt = good.clone()
        spoilt[77, 31] = bad
        assert not all_finite([good, spoilt])


SQUARES = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("lower", torch.rand(5, 5).add(1).tril())

    def forward(self, a, b):
        return {result}

def get_inputs():
    a = torch.rand(5, 5)
    return [a + a.mT + torch.eye(5), torch.eye(5)]
"""
A = TensorSpec(name="a", shape=(5, 5), strides=(5, 1), dtype="float32")
SQUARE = Signature(
    inputs=(A, A.model_copy(update={"name": "b"})), parameters=(A.model_copy(update={"name": "lower"}),),
    outputs=(A.model_copy(update={"name": "y"}),),
)  # fmt: skip
SYMMETRIC, DIAGONAL = "(0 if torch.equal(a, a.mT) else torch.nan)", "(0 if b.count_nonzero() <= 5 else torch.nan)"
LOWER = "(0 if not self.lower.triu(1).any() else torch.nan)"


@pytest.mark.parametrize(
    ("result", "inputs", "weights"),
    [
        ("a @ b @ self.lower", set(), set()),
        (f"a @ b @ self.lower + {SYMMETRIC}", {"a"}, set()),
        (f"a @ b @ self.lower + {SYMMETRIC} + {DIAGONAL}", {"a", "b"}, set()),
        (f"a @ b @ self.lower + {LOWER}", set(), {"lower"}),
    ],
)
def test_a_structure_is_kept_only_where_the_reference_refuses_to_be_without_it(result, inputs, weights):
    with bench_of(lambda views, numbers: None, source=SQUARES.format(result=result), signature=SQUARE) as bench:
        choose_weights(bench, 3)
        choose_structure(bench, 3)
        assert (bench.arguments.shaped, bench.arguments.trained.keeps_structure) == (inputs, weights)
        told = [each.reason for each in bench.untried if "alone of" in each.reason]
        assert all(any(name in reason for reason in told) for name in inputs | weights) and bool(told) == bool(
            inputs | weights
        )
        for family in ("normal", "wide"):
            bench.arguments.fill(0, 4, family)
            views = bench.memory.views[0]
            assert torch.equal(views["a"], views["a"].mT) == ("a" in inputs)
            assert (int(views["b"].count_nonzero()) == 5) == ("b" in inputs)
        for _ in range(3):
            bench.arguments.stir(1)
            timed = bench.memory.views[1]
            assert torch.equal(timed["a"], timed["a"].mT), "timed values are like the file's"
            assert not timed["lower"].triu(1).any()
