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


MASKED = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("own", (torch.arange(8) % 3 > 0).float())
        self.weight = torch.nn.Parameter(torch.ones(8))

    def forward(self, x, shown):
        return {result}

def get_inputs():
    return [torch.randn(4, 8), torch.arange(8) % 2 == 0]
"""
HIDING = {
    "a flag": ("(x * shown).sum(-1)", 1),
    "a flag as a number": ("(shown.float() * x).mean(-1)", 1),
    "a registered mask": ("(x * self.own).amax(-1)", 3),
    "its opposite": ("(x * (1 - self.own)).sum(-1)", 1),
    "in place": ("(x + 0).mul_(shown).exp().sum(-1)", 1),
    "behind a function": ("torch.tanh(x * shown).cumsum(-1)[:, -1]", 1),
    "where numbers are compared": ("(x * (torch.arange(8) < 3).float()).sum(-1)", 5),
}
SHOWING = {
    "no mask": ("(x * torch.relu(shown.float() - 0.5)).sum(-1)", 1),
    "a sum of the same": ("(x - x).sum(-1)", 1),
    "a bell": ("torch.exp(-x * x).sum(-1)", 1),
    "a weight of zero": ("(x * self.weight).sum(-1)", 1),
    "what is shown": ("(x * shown).sum(-1)", 2),
}


def masked(result, place, value):
    """What is expected with a value at a place of the second row, and the result without it."""
    reference = Reference(MASKED.format(result=result), "task")
    inputs, oracle, own = reference.inputs(0), Oracle(reference, "reduction"), reference.parameters()
    pattern, weights = [each.clone() for each in inputs], {name: each.clone() for name, each in own.items()}
    weights["weight"][place] = 0.0
    reference.load(reference.model, weights)
    without = reference.run([inputs[0].clone().index_fill_(1, torch.tensor(place), 0.0), inputs[1]])
    inputs[0][1, place] = value
    results = reference.run(inputs)
    exact = oracle.run(inputs, weights, results)
    (shown,) = oracle.without_hidden(inputs, weights, (pattern, own), 1)
    got = torch.where(torch.isfinite(results[0]), results[0], without[0])
    return got, Expected("y", exact[0], results[0], "reduced", shown=shown)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("form", HIDING)
def test_what_a_mask_hides_may_be_left_out_and_nothing_else_put_in_its_place(form, value):
    got, expected = masked(*HIDING[form], value)
    assert expected.reference[1].isnan()
    assert compare(expected.reference, expected).bad_fraction == 0
    assert compare(got, expected).bad_fraction == 0
    assert compare(torch.where(expected.reference.isnan(), got + 1, got), expected).bad_fraction == 0.25
    assert compare(got + (torch.arange(4) == 3), expected).bad_fraction == 0.25


@pytest.mark.parametrize("form", SHOWING)
def test_a_nan_that_no_mask_hides_must_come_out(form):
    got, expected = masked(*SHOWING[form], math.nan)
    assert expected.reference[1].isnan()
    assert compare(got, expected).bad_fraction == 0.25


def test_an_infinity_that_a_mask_shows_must_come_out():
    got, expected = masked(*SHOWING["what is shown"], math.inf)
    assert expected.reference[1].isinf()
    assert compare(got, expected).bad_fraction == 0.25
