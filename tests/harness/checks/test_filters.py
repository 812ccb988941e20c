"""When a task's outputs vary too little to be worth judging."""

import math

import pytest
import torch

from harness.checks import filters
from harness.checks.errors import Expected
from harness.checks.filters import Influence, axis_spread, judge_variation, peak, sample, spread


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def shown(*families: tuple[str, list[torch.Tensor]]) -> Influence:
    influence = Influence()
    for family, outputs in families:
        influence.see(family, [Expected("", output.double(), output) for output in outputs])
    return influence


def test_small_outputs_are_rejected_by_absolute_thresholds():
    first, second = (torch.softmax(drawn(seed, 4, 4000), 1) for seed in (1, 2))
    result = judge_variation("output spread", spread([[first], [second]]), [first])
    assert result.rejected
    assert result.relative > 0.1
    assert shown(("given", [first])).shown_by("given", [second]) == "given"


def test_the_first_family_that_rules_a_constant_out_is_named():
    """A mean loss varies by little on the file's own inputs, and a constant may be near it; on others it is not."""
    given, more = [torch.tensor(4.6470)], [torch.tensor(4.6475)]
    influence = shown(("given", given), ("small", given), ("wide", [torch.tensor(40.0)]), ("large", more))
    assert influence.family == "wide"
    assert influence.shown_by("given", more) == "wide"
    assert influence.shown_by("given", [torch.tensor(5.0)]) == "given"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (torch.zeros(4, 4), torch.zeros(4, 4)),
        (torch.eye(4), torch.eye(4)),
        (torch.ones(4), torch.ones(4) - 1e-7),
        (torch.ones(4), torch.tensor([1.0, math.nan, math.inf, 1.0])),
        (torch.tensor([True, True]), torch.tensor([True, True])),
    ],
)
def test_outputs_that_a_constant_is_right_for_show_nothing(first, second):
    influence = shown(("given", [first]), ("wide", [second]))
    assert influence.shown_by("given", [second]) == ""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([torch.ones(3, 3), drawn(1, 3, 3)], [torch.ones(3, 3), drawn(2, 3, 3)]),
        ([torch.tensor([0, 4])], [torch.tensor([0, 5])]),
        ([torch.tensor(7.0)], [torch.tensor(7.001)]),
        ([torch.zeros(300, 300)], [torch.nn.functional.pad(drawn(1, 200, 200), (100, 0, 100, 0))]),
    ],
    ids=["one of two outputs", "whole numbers", "a number", "not in the first corner"],
)
def test_what_no_constant_is_right_for_shows_influence(first, second):
    assert shown(("given", first), ("wide", second)).family == "wide"


def test_a_number_has_no_axis_and_an_axis_of_one_element_is_none():
    assert axis_spread([torch.tensor(1.0)]) == math.inf
    assert axis_spread([drawn(1, 1, 9)]) > 0.1


@pytest.mark.parametrize(("variation", "rejected"), [(0.0099, True), (0.0101, False), (0.0, True)])
@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0])
def test_robust_kbenchs_threshold_is_absolute(variation, rejected, scale):
    result = judge_variation("output range", variation, [torch.zeros(3), torch.full((3,), scale)])
    assert (result.rejected, result.value) == (rejected, variation)
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
