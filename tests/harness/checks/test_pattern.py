"""The phrase that says where an error lies."""

import pytest
import torch
from hypothesis import given
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


def test_a_run_of_a_vector():
    assert phrase((64,), slice(3, 9)) == "6 elements in a row from 3"


def test_whole_rows_and_columns():
    assert phrase((8, 10), (slice(2, 4), slice(None))) == "whole rows: 2 of 8, from 2"
    assert phrase((8, 10), (slice(None), slice(7, 8))) == "whole columns: 1 of 10, from 7"


def test_a_tile():
    assert phrase((64, 64), (slice(16, 32), slice(32, 48))) == "a block of 16 rows from 16 and 16 columns from 32"


def test_strides_along_an_axis():
    assert phrase((8, 10), (slice(1, None, 2), slice(None))) == "whole rows: 4 of 8, every 2nd row from 1"
    assert phrase((8, 12), (slice(None), slice(2, None, 4))) == "whole columns: 3 of 12, every 4th column from 2"
    assert phrase((8, 10), (slice(None), slice(7, None))) == "whole columns: 3 of 10, the last 3"


def test_whole_tiles():
    wrong = torch.zeros(100, 200, dtype=torch.bool)
    for row, column in ((0, 32), (32, 96), (96, 160)):
        wrong[row : row + 32, column : column + 16] = True
    assert pattern_of(wrong, torch.ones(100, 200)) == "whole tiles of 32 x 16: 3 of 52, the first at (0, 32)"
    batched = torch.stack([torch.zeros_like(wrong), wrong])
    assert "whole tiles of 32 x 16" in pattern_of(batched, torch.ones(2, 100, 200))


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (torch.eye(16), "on the diagonal only"),
        (torch.ones(16, 16).tril(-1), "below the diagonal of 16 x 16"),
        (torch.ones(16, 16).triu(1), "above the diagonal of 16 x 16"),
    ],
)
def test_the_diagonal_and_its_sides(part, words):
    assert pattern_of(part.bool(), torch.ones(16, 16)) == words


def test_scattered():
    wrong = torch.zeros(16, 16, dtype=torch.bool)
    wrong[[1, 4, 9], [3, 2, 14]] = True
    assert pattern_of(wrong, torch.ones(16, 16)) == "scattered over 3 rows and 3 columns"
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
def test_any_mask_has_a_phrase(places):
    flat = torch.zeros(100, dtype=torch.bool)
    flat[places] = True
    for shape in ((100,), (10, 10), (2, 5, 10)):
        assert pattern_of(flat.reshape(shape), torch.zeros(shape))
