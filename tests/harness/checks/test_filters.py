"""When a task's outputs vary too little to be worth judging."""

import math

import pytest
import torch

from harness.checks import filters
from harness.checks.filters import axis_spread, defect_of, judge_variation, peak, sample, spread


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def test_ordinary_outputs_have_no_defect():
    assert defect_of([drawn(1, 8, 9)], [drawn(2, 8, 9)]) == ""


def test_small_outputs_are_rejected_by_absolute_thresholds_yet_sound():
    first, second = (torch.softmax(drawn(seed, 4, 4000), 1) for seed in (1, 2))
    result = judge_variation("output spread", spread([[first], [second]]), [first])
    assert result.rejected
    assert not result.degenerate
    assert result.relative > 0.1
    assert defect_of([first], [second]) == ""


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (torch.zeros(4, 4), torch.zeros(4, 4), "every output is zero"),
        (torch.eye(4), torch.eye(4), "inputs have no influence"),
        (drawn(1, 5, 1).expand(5, 6), drawn(2, 5, 1).expand(5, 6), "constant along an axis"),
        (torch.tensor(7.0), torch.tensor(7.001), "inputs have no influence"),
    ],
)
def test_outputs_that_do_not_vary_are_a_defect(first, second, words):
    assert words in defect_of([first], [second])


def test_one_output_that_varies_is_enough():
    constant = torch.ones(3, 3)
    assert defect_of([constant, drawn(1, 3, 3)], [constant, drawn(2, 3, 3)]) == ""


def test_a_number_has_no_axis_and_an_axis_of_one_element_is_none():
    assert axis_spread([torch.tensor(1.0)]) == math.inf
    assert axis_spread([drawn(1, 1, 9)]) > 0.1


@pytest.mark.parametrize(
    ("variation", "scale", "rejected", "degenerate"),
    [
        (0.0099, 1.0, True, True),
        (0.0101, 1.0, False, False),
        (0.0099, 0.98, True, False),  # above a hundredth of its size
        (0.0101, 100.0, False, False),
        (0.0, 0.0, True, True),
    ],
)
def test_the_threshold_is_a_hundredth_in_itself_and_of_the_largest_output(variation, scale, rejected, degenerate):
    result = judge_variation("output range", variation, [torch.zeros(3), torch.full((3,), scale)])
    assert (result.rejected, result.degenerate, result.value) == (rejected, degenerate, variation)
    assert result.relative == pytest.approx(variation / scale if scale else 0)


def test_infinities_do_not_count():
    assert peak([[torch.tensor([-1.0, math.inf, -math.inf, math.nan])]]) == 1.0


def test_an_axis_of_two_elements_is_one_and_a_large_output_is_looked_at_in_a_corner(monkeypatch):
    columns = torch.tensor([[1.0, 5.0], [1.0, 5.0]])
    assert axis_spread([columns]) == 0
    assert axis_spread([columns[:, :1]]) == 0
    far = torch.zeros(300, 300)
    far[299] = torch.rand(300)
    assert axis_spread([far]) > 0
    monkeypatch.setattr(filters, "WHOLE", 300 * 300)
    assert axis_spread([far]) > 0
    monkeypatch.setattr(filters, "WHOLE", 300 * 300 - 1)
    assert axis_spread([far]) == 0


def test_a_sample_has_some_extent_along_every_axis():
    assert sample(torch.zeros(1).expand((3,) * 17)).shape == (2,) * 17
    assert sample(torch.arange(70_000)).shape == (filters.SAMPLED,)


def test_large_outputs_are_looked_at_in_pieces_and_samples(monkeypatch):
    monkeypatch.setattr(filters, "PIECE", 7)
    monkeypatch.setattr(filters, "WHOLE", 50)
    first, second = drawn(1, 10, 10), drawn(2, 10, 10)
    second[9, 9] = 100.0
    assert spread([[first], [second]]) > 50
    assert peak([[first], [second]]) == 100.0
    assert axis_spread([first]) > 0.1
    assert sample(torch.zeros(3000, 2, 3000)).shape == (40, 2, 40)
    assert sample(torch.tensor(3)).item() == 3.0


def test_whole_numbers_vary_too():
    assert defect_of([torch.tensor([0, 4])], [torch.tensor([3, 1])]) == ""
    assert defect_of([torch.tensor([True, True])], [torch.tensor([True, True])]) != ""
