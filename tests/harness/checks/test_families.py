"""What each family of numbers is for."""

import math

import pytest
import torch

from harness.checks.families import FAMILIES, MULTIPLIED, PLANS, SEGMENTS, Reach, plan_of

COUNT = 100_000


def generator(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def block(name: str, seed: int = 5, op_class="reduction", dtype=torch.float32, mild=0) -> torch.Tensor:
    shape = torch.empty(COUNT // 100, 100, dtype=dtype)
    draws = FAMILIES[name].block
    assert draws is not None
    return draws(COUNT, generator(seed), Reach.of(shape, op_class, mild))


def test_every_trial_names_a_family_and_each_is_tried_somewhere():
    named = {name for plan in (*PLANS.values(), MULTIPLIED) for name in plan}
    assert named == {name for name, family in FAMILIES.items() if family.gradient is None} - {"normal"}
    for op_class in PLANS:
        for plan in (plan_of(op_class, multiplies=multiplies) for multiplies in (True, False)):
            assert (plan[0], plan[-1], len({*plan})) == ("given", "stirred", len(plan))


def test_wide_covers_six_decades_of_both_signs():
    drawn = block("wide")
    size = drawn.abs()
    assert size.min() >= 0.99e-3 and size.max() <= 1.01e3
    assert 0.45 < (drawn < 0).float().mean() < 0.55
    for low, high in ((1e-3, 1e-2), (1e-1, 1), (1e2, 1e3)):
        assert 0.14 < ((size >= low) & (size < high)).float().mean() < 0.19
    lanes = drawn[:8000].sign().view(-1, 8).sum(0)
    assert (lanes.abs() < 200).all(), "an honest sum's lanes hold numbers of both signs"


@pytest.mark.parametrize("seed", range(4))
def test_the_largest_of_a_negative_row_is_away_from_zero_and_another_in_each(seed):
    rows = block("negative", seed).view(100, 1000)
    assert rows.max() <= -0.49
    assert rows.amax(1).unique().numel() > 10
    ties = [row.unique().numel() for row in rows]
    assert min(ties) < 950


@pytest.mark.parametrize(("dtype", "offset"), [(torch.float32, 1000), (torch.float16, 256), (torch.bfloat16, 32)])
def test_an_offset_leaves_what_varies_beside_it_some_digits(dtype, offset):
    for name, mean in (("offset 1000", offset), ("offset -100", -offset / 10)):
        drawn = block(name, dtype=dtype)
        assert float(drawn.mean()) == pytest.approx(mean, abs=0.05)
        assert float(drawn.std()) == pytest.approx(1, rel=0.02)
        assert drawn.to(dtype).unique().numel() > 10


def test_outliers_are_one_in_a_hundred_one_in_a_thousand_and_one():
    far = block("outliers").abs() > 12
    shares = [int(third.sum()) for third in far[: COUNT // 3 * 3].view(3, -1)]
    assert 200 < shares[0] < 400 and 15 < shares[1] < 50 and shares[2] <= 1
    assert any((block("outliers", seed)[2 * COUNT // 3 :].abs() > 12).any() for seed in range(5))


def test_large_is_one_magnitude_throughout_of_many():
    for op_class, decades in (("elementwise", 30.5), ("gemm", 15.3)):
        sizes = [float(block("large", seed, op_class).std().log10()) for seed in range(40)]
        assert min(sizes) >= 3 and max(sizes) <= decades
        assert max(sizes) - min(sizes) > decades / 2
    assert block("large", dtype=torch.float16).half().isfinite().all()


def test_small_has_zeros_and_subnormal_numbers_in_stretches():
    drawn = block("small")
    assert 0.1 < (drawn == 0).float().mean() < 0.25
    subnormal = (drawn != 0) & (drawn.abs() < torch.finfo(torch.float32).smallest_normal)
    assert 0.02 < subnormal.float().mean() < 0.1
    assert 0 < drawn.abs().max() < 1e-4


def test_factors_near_one_have_products_that_stay_in_range():
    drawn = block("near one")  # rows of up to a thousand
    products = drawn.double().view(-1, 1000).prod(1)
    assert products.abs().min() > 1e-5 and products.abs().max() < 1e5
    assert 0.3 < (products < 0).float().mean() < 0.7
    assert float(block("near one", mild=1).abs().log().sum().abs()) < 10


@pytest.mark.parametrize("seed", range(4))
def test_a_mix_has_each_of_its_families_and_no_stretch_tells_of_the_rest(seed):
    drawn = block("mixed", seed)
    assert 0.05 < (drawn == 0).float().mean() < 0.25
    for low, high in ((2.9, 3.1), (-3.1, -2.9), (4.5, math.inf), (-math.inf, -4.5)):
        assert ((drawn > low) & (drawn < high)).float().mean() > 0.02
    starts = drawn.view(-1, 5000)
    kinds = [(bool((row > 8).any()), bool((row == 0).any())) for row in starts]
    assert kinds.count((True, True)) > len(kinds) * 0.6
    assert len(SEGMENTS) == 8
