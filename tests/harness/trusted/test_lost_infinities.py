"""What is not finite among a product's inputs comes out behind it, or is left out where a zero met it."""

from __future__ import annotations

import math

import pytest
import torch

from harness.checks.errors import Expected, compare
from harness.trusted.oracle import Oracle
from harness.trusted.reference import Reference

FILE = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8, 8))

    def forward(self, a, b):
        return {result}

def get_inputs():
    return [torch.randn(8, 8), torch.randn(8, 8)]
"""
SKIPPING = {
    "a triangle": "a.tril() @ b",
    "a mask": "torch.softmax(a.masked_fill(torch.ones(8, 8).triu(1).bool(), float('-inf')), -1) @ b",
}


def expected_of(result, at, value):
    reference = Reference(FILE.format(result=result), "task")
    inputs, weights, oracle = reference.inputs(0), reference.parameters(), Oracle(reference, "gemm")
    inputs[1][at] = value
    results = reference.run(inputs)
    exact = oracle.run(inputs, weights, results)
    (reached,) = oracle.reached(inputs, weights, 1)
    return Expected("y", exact[0], results[0], "finite", reached=reached)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(
    "result", ["torch.relu(a @ b)", "torch.clamp(a @ b, -1, 1)", "torch.tanh((a @ b) @ self.weight)"]
)
def test_who_turns_a_nan_behind_a_product_into_a_number_is_wrong(result, value):
    expected = expected_of(result, (3, 2), value)
    assert compare(expected.reference.clone(), expected).bad_fraction == 0
    gone = ~torch.isfinite(expected.reference)
    if gone.any():
        error = compare(expected.reference.nan_to_num(0.0, 0.0, 0.0), expected)
        assert (error.bad_fraction, error.max_scaled) == (gone.float().mean().item(), math.inf)
    assert gone.any() or value == math.inf  # a clamped infinity is a number


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("form", SKIPPING)
def test_terms_that_a_zero_met_may_be_left_out(form, value):
    expected = expected_of(SKIPPING[form], (7, 2), value)
    got = expected_of(SKIPPING[form], (7, 2), 0.0).reference
    got[7, 2] = math.nan  # the one row that does not mask it
    assert expected.reference[:, 2].isnan().sum() >= 7
    assert compare(got, expected).bad_fraction == 0
    got[7, 2] = 1.0
    assert (compare(got, expected).bad_fraction > 0) == (value != -math.inf)


ATTENTION = "torch.softmax((a @ b.T).masked_fill(torch.ones(8, 8).triu(1).bool(), float('-inf')), -1) @ b"


def test_a_key_that_weighs_nothing_does_not_bring_a_hidden_nan_back():
    """Key 2 scores -infinity in the rows that see it; NaN of the hidden key 7 makes eager's rows NaN."""
    reference = Reference(FILE.format(result=ATTENTION), "task")
    (a, b), weights, oracle = reference.inputs(0), reference.parameters(), Oracle(reference, "gemm")
    a[:, 3], b[2, 3] = -a[:, 3].abs() - 0.1, math.inf
    b[7, 1] = math.nan
    results = reference.run([a, b])
    (exact,) = oracle.run([a, b], weights, results)
    (reached,) = oracle.reached([a, b], weights, 1)
    expected = Expected("y", exact, results[0], "finite", reached=reached)
    hidden = torch.ones(8, 8).triu(1).bool()
    got = torch.softmax((a @ b.T).masked_fill(hidden, -math.inf), -1) @ torch.where(b.isfinite(), b, 0.0)
    got[7] = math.nan
    got[2:, 3] = math.nan
    assert results[0][2:7, 1].isnan().all() and got[2:7, 1].isfinite().all()
    assert compare(got, expected).bad_fraction == 0
    got[4, 1] = 0.5 - got[4, 1]
    assert compare(got, expected).bad_fraction > 0
