"""Bools by their bytes."""

import torch

from harness.checks.errors import Expected, compare, no_flags, scaled_error


def test_a_byte_that_is_no_bool_is_wrong_though_it_compares_like_true():
    right = torch.tensor([True, False, True])
    other = torch.tensor([6, 0, 1], dtype=torch.uint8).view(torch.bool)
    error = compare(other, Expected("y", right, right))
    assert error.bad_fraction == 1 / 3 and error.first_bad is not None
    assert (error.first_bad.expected, error.first_bad.got) == (1, 6), "what is told is the byte, not that it is true"
    assert scaled_error(other, right) == 1
    assert compare(right.clone(), Expected("y", right, right)).bad_fraction == 0
    assert scaled_error(right.clone(), right) == 0


def test_other_types_have_no_such_bytes():
    assert not no_flags(torch.tensor([6, 0])).any()
