"""The phrase that says where an error lies."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.checks.pattern import pattern_of


def phrase(shape: tuple[int, ...], place: object, value: float = 1.0) -> str:
    wrong = torch.zeros(shape, dtype=torch.bool)
    wrong[place] = True
    return pattern_of(wrong, torch.full(shape, value))


def test_all_elements():
    assert phrase((8, 8), ...) == "all elements"


def test_a_tail_of_a_vector():
    assert phrase((1000,), slice(992, None)) == "the tail from flat index 992 of 1000"


def test_every_nth_element():
    assert phrase((64,), slice(3, None, 16)) == "every 16th element from 3"


def test_whole_rows_and_columns():
    assert phrase((8, 10), (slice(2, 4), slice(None))) == "whole rows: 2 of 8, the first 2"
    assert phrase((8, 10), (slice(None), slice(7, 8))) == "whole columns: 1 of 10, the first 7"


def test_a_tile():
    assert phrase((64, 64), (slice(16, 32), slice(32, 48))) == "a block of 16 rows from 16 and 16 columns from 32"


def test_scattered():
    wrong = torch.zeros(16, 16, dtype=torch.bool)
    wrong.fill_diagonal_(True)
    assert pattern_of(wrong, torch.ones(16, 16)) == "scattered over 16 rows and 16 columns"
    assert phrase((100,), torch.tensor([1, 5, 60])) == "3 elements scattered from 1 to 60"


def test_unwritten_elements_are_named_first():
    assert phrase((8,), slice(6, None), float("nan")).startswith("never written (or NaN), the tail")
    wrong = torch.ones(10, dtype=torch.bool)
    got = torch.ones(10)
    got[:5] = float("nan")
    assert pattern_of(wrong, got) == "50% of them NaN or never written, all elements"


def test_a_scalar_output():
    assert phrase((), ...) == "all elements"


@given(st.lists(st.integers(0, 99), min_size=1, unique=True))
@settings(max_examples=60, deadline=None)
def test_any_mask_has_a_phrase(places):
    flat = torch.zeros(100, dtype=torch.bool)
    flat[places] = True
    for shape in ((100,), (10, 10), (2, 5, 10)):
        assert pattern_of(flat.reshape(shape), torch.zeros(shape))
