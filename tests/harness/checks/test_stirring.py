"""Other values at the price of a copy: what changes, and what stays."""

import pytest
import torch

from harness.checks.stirring import BLOCK, PLANTED, TOUCHED, Stirring, touch_few
from harness.checks.structure import Structure


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


@pytest.mark.parametrize("shape", [(7,), (37, 129), (3, BLOCK // 2), ()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_stirring_changes_every_element_each_time_anew_and_keeps_zeros_signs_and_bounds(shape, dtype):
    given = torch.randn(shape, generator=generator()).to(dtype)
    given.view(-1)[3::5] = 0
    stirring = Stirring(generator())
    place = torch.empty_like(given)
    first = stirring.stir(given, place)
    assert first is place
    second = stirring.stir(given)
    assert torch.equal(first.sign(), given.sign())
    assert (first.abs() <= given.abs()).all()
    assert (first.abs() >= 0.49 * given.abs()).all()
    ratio = (first / second)[given != 0].double()
    assert (ratio != 1).double().mean() > 0.9
    assert ratio.unique().numel() > min(100, 0.7 * ratio.numel())


def test_what_is_planted_is_larger_or_of_another_sign_and_rare():
    given = torch.rand(64, 64, generator=generator())
    given[3] = 0
    stirring = Stirring(generator())
    seen = torch.zeros(64, 64)
    for _ in range(50):
        strange = stirring.stir(given, manner="planted")
        planted = (strange < 0) | (strange > given)
        assert 0 < planted.sum() <= PLANTED
        assert (strange.abs() <= 4 * given).all()
        assert not torch.signbit(strange[3]).any()
        seen += planted
    assert (strange[planted] < 0).any()
    assert seen.bool().sum() > 40 * PLANTED * 0.9


def test_factors_that_turn_have_either_sign_and_zeros_stay():
    given = torch.randn(37, 129, generator=generator())
    given[3] = 0
    stirring = Stirring(generator())
    signs = [torch.sign(stirring.stir(given, turned=True) / given) for _ in range(2)]
    assert all(0.4 < float((sign < 0).double().mean()) < 0.6 for sign in signs)
    assert 0.4 < float((signs[0] != signs[1])[given != 0].double().mean()) < 0.6
    few = given.clone()
    touch_few(few, turned=True)
    changed = few != given
    assert 0 < int((few / given < 0).sum()) < int(changed.sum()) <= TOUCHED


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_stretches_may_keep_the_sign_of_the_file_or_its_range(side):
    given = side * (torch.rand(300, 1001, generator=generator()) + 0.25)
    low, high = given.aminmax()
    stirring = Stirring(generator())
    upwards, few, within = (
        stirring.stir(given, manner=each) for each in ("mixed upwards", "planted upwards", "mixed within")
    )
    assert (side * upwards > 0).all() and 0.1 < float((upwards.abs() > 1.25).double().mean()) < 0.3
    assert (side * few > 0).all() and 0 < int((few.abs() > given.abs()).sum()) <= PLANTED
    assert (within >= min(low, low / 2)).all() and (within <= max(high, high / 2)).all()
    mirrored = (within - (low + high - given)).abs() < (within - given).abs()
    assert float(mirrored.double().mean()) > 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_mix_has_other_families_in_stretches_at_other_places_each_time(dtype):
    given = torch.rand(300, 1001, generator=generator()).to(dtype)
    stirring = Stirring(generator())
    foreign = []
    for _ in range(20):
        mixed = stirring.stir(given, manner="mixed")
        foreign.append((mixed < 0) | (mixed > given))
        assert 0.1 < foreign[-1].float().mean() < 0.4
        assert mixed.abs().max() < 40
    assert torch.stack(foreign).any(0).float().mean() > 0.9
    for few in (1, 2, 9, 40):
        assert stirring.stir(given.view(-1)[:few], manner="mixed").isfinite().all()


def test_factors_near_one_are_other_ones_each_time_and_their_products_stay():
    given = torch.rand(50, 2000, generator=generator())
    stirring = Stirring(generator())
    first, second = (stirring.stir(given, manner="near one") for _ in range(2))
    assert (first != second).all()
    assert first.double().prod(1).abs().min() > 1e-5 and first.double().prod(1).abs().max() < 1e5


def test_stirring_keeps_structure_and_strides():
    square = torch.rand(16, 16, generator=generator())
    stirring = Stirring(generator())
    both = square + square.mT
    symmetric = stirring.stir(both, manner="mixed", structure=Structure.of(both))
    assert torch.equal(symmetric, symmetric.mT)
    upper = square.triu()
    assert not stirring.stir(upper, manner="mixed", structure=Structure.of(upper)).tril(-1).any()
    turned = stirring.stir(torch.rand(5, 9, generator=generator()).mT, torch.empty(5, 9).mT)
    assert turned.shape == (9, 5)
