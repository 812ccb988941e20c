"""Indices among equals, and numbers at a step: whatever an honest kernel may find is right, and nothing else."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.checks.choices import Choice
from harness.checks.errors import Expected, compare
from harness.trusted.oracle import Oracle
from harness.trusted.reference import Reference

FILE = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(16, 16))

    def forward(self, x):
        {forward}

def get_inputs():
    return [torch.rand(4, 16)]
"""


def expected_of(forward, x):
    """What each output should be, as trials have it."""
    reference = Reference(FILE.format(forward=forward), "task")
    oracle, weights = Oracle(reference, "other"), reference.parameters()
    results = reference.run([x])
    exact = oracle.run([x], weights, results)
    further = oracle.further([x], weights, results, 1.0)
    assert oracle.absent == ""
    return [Expected("y", *pair, further=more) for *pair, more in zip(exact, results, further, strict=True)]


def share_wrong(got, expected):
    return compare(got, expected).bad_fraction


TIES = torch.tensor([[1.0, 3.0, 3.0, 2.0, 3.0, 0.0, 1.0, 2.0]]).repeat(4, 2)
CASES = {
    "return torch.topk(x, 2)[1]": ([2, 4], [1, 1], [1, 3]),
    "return torch.topk(x, 2, largest=False, sorted=True)[1]": ([13, 5], [5, 5], [5, 0]),
    "return x.topk(3)[1][..., :2]": ([4, 2], [2, 2], [3, 1]),
    "return x.sort(descending=True)[1][:, :2]": ([9, 10], [9, 9], [3, 9]),
    "return x.argsort(dim=-1, descending=True).narrow(1, 0, 2)": ([10, 2], [2, 2], [0, 2]),
    "return x.topk(2)[1].to(torch.int32)": ([10, 12], [12, 12], [3, 16]),
    "return x.topk(2)[1].reshape(8)": ([10, 12], [12, 12], [-1, 3]),
    "return x.topk(2)[1].float()": ([10, 12], [12, 12], [2.5, 3]),
}


@pytest.mark.parametrize("forward", CASES)
def test_any_of_several_equals_is_right_once_a_row(forward):
    fine, twice, worse = CASES[forward]
    (expected,) = expected_of(forward, TIES)
    shape, dtype = expected.reference.shape, expected.reference.dtype
    right, repeated, wrong = (torch.tensor([row] * 4, dtype=dtype).reshape(shape) for row in (fine, twice, worse))
    assert not torch.equal(right, expected.reference)
    assert share_wrong(right, expected) == 0
    assert share_wrong(repeated, expected) == 0.5
    assert share_wrong(wrong, expected) >= 0.5


@pytest.mark.parametrize(
    ("forward", "fine", "wrong"),
    [
        ("return x.kthvalue(16)[1]", 10, 3), ("return x.median(1)[1]", 15, 1), ("return x.mode(1)[1]", 12, 0),
        ("return x.max(1)[1]", 12, 0), ("return x.min(1, keepdim=True)[1]", 13, 0), ("return x.argmax(-1)", 9, 3),
        ("return x.argmin(1).unsqueeze(1)", 13, 0), ("return x.argmax()", 60, 61),
        ("return x.topk(3)[1][:, 1]", 12, 3), ("return (x @ self.weight * 0 + x).argmax(1)", 12, 3),
    ],
)  # fmt: skip
def test_an_index_is_held_to_the_value_it_names(forward, fine, wrong):
    (expected,) = expected_of(forward, TIES)
    assert share_wrong(torch.full_like(expected.reference, fine), expected) == 0
    assert share_wrong(torch.full_like(expected.reference, wrong), expected) == 1
    assert share_wrong(torch.full_like(expected.reference, 999), expected) == 1


def test_what_says_which_of_equals_comes_first_is_held_to_it():
    (expected,) = expected_of("return x.sort(stable=True)[1]", TIES)
    other = expected.reference.clone()
    other[0, :2] = other[0, :2].flip(0)
    assert share_wrong(other, expected) == 2 / other.numel()


@pytest.mark.parametrize("forward", ["return x.topk(2)[1].T", "return x.argmax(1) * 2", "return x.T.argmax(0) + 1"])
def test_what_is_made_of_an_index_is_compared_as_it_is(forward):
    (expected,) = expected_of(forward, TIES)
    assert share_wrong(expected.reference.clone(), expected) == 0
    assert share_wrong(expected.reference + 1, expected) == 1


def test_nearly_equal_sums_are_equals_and_inputs_are_not():
    """Of a product nobody knows the last bit; what was given is known to it."""
    x = torch.ones(4, 16)
    x[:, 3] += 2e-7
    (computed,) = expected_of("return (x.double().float() * 3.3 + self.weight.sum() * 0 + 0.7).argmax(1)", x)
    (given_,) = expected_of("return x.argmax(1)", x)
    got = torch.full((4,), 7)
    assert given_.reference.tolist() == [3] * 4
    assert share_wrong(got, given_) == 1
    assert share_wrong(got, computed) == 0
    x[:, 3] += 1e-4
    (computed,) = expected_of("return (x.double().float() * 3.3 + 0.7).argmax(1)", x)
    assert share_wrong(got, computed) == 1


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9), st.data())
def test_a_choice_is_right_where_it_is_one_by_definition(values, data):
    operand = torch.tensor(values).double()
    count = data.draw(st.integers(1, len(values)))
    got = torch.tensor(data.draw(st.lists(st.integers(-1, len(values)), min_size=count, max_size=count)))
    best = operand.topk(count)[1]
    wrong = Choice(operand, 0, (count,), distinct=True).wrong(got, best)
    for place, index in enumerate(got.tolist()):
        legal = 0 <= index < len(values) and values[index] == values[best[place]]
        first = index not in got.tolist()[:place] and not (
            index == 0 and any(not 0 <= g < len(values) for g in got.tolist()[:place])
        )
        assert bool(wrong[place]) == (not (legal and first))


STEPS = {
    "return torch.round(x * 0.7)": 1.0,
    "return (x * 0.7 + 0.5).floor()": 1.0,
    "return (x * 0.7 + 0.5).to(torch.int32)": 1,
    "return torch.round(x * 0.7) * 0.125": 0.125,
    "return torch.clamp(torch.round(x * 0.7), -128, 127).to(torch.int8)": 1,
    "return torch.div(x * 0.7 + 0.5, 1.0, rounding_mode='floor')": 1.0,
    "return (x * 0.7 > 2.5).float()": 1.0,
    "return torch.bucketize(x * 0.7, torch.tensor([0.5, 2.5, 9.5]))": 1,
    "return torch.fake_quantize_per_tensor_affine(x * 0.7, 1.0, 0, -128, 127)": 1.0,
}


@pytest.mark.parametrize("forward", STEPS)
def test_at_a_step_either_side_is_right_and_elsewhere_neither(forward):
    quantum = STEPS[forward]
    x = torch.linspace(-40, 40, 64).reshape(4, 16)
    x[0, 0] = 2.5 / 0.7  # times 0.7 that is 2.5, or the number next to it
    (expected,) = expected_of(forward, x)
    near, far = expected.reference.clone(), expected.reference.clone()
    sides = [near.flatten()[0].item() + quantum * sign for sign in (1, -1)]
    found = []
    for side in sides:
        near[0, 0] = side
        found.append(share_wrong(near, expected))
    assert sorted(found) == [0, 1 / 64]  # one quantum, to one side
    far[1, 1] += quantum
    assert share_wrong(far, expected) == 1 / 64
    far[0, 0] += 7 * quantum
    assert share_wrong(far, expected) == 2 / 64


def test_a_step_of_what_was_given_is_exact():
    x = torch.full((4, 16), 2.5)
    (expected,) = expected_of("return torch.round(x)", x)
    assert share_wrong(torch.full_like(x, 3.0), expected) == 1
