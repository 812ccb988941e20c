"""Inputs beyond the file's own: their ranges, and the structure that they keep."""

import pytest
import torch

from harness.checks.distributions import DISTRIBUTIONS, ORDER, draw, jitter


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def test_every_trial_names_a_distribution():
    assert set(ORDER) == {"given", *DISTRIBUTIONS}


def test_the_given_values_are_left_alone():
    given = torch.rand(4, 4)
    assert draw("given", given, generator()) is given


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_shape_and_type_are_kept_and_values_replaced(name, dtype):
    given = torch.full((100, 7), 0.5, dtype=dtype)
    drawn = draw(name, given, generator())
    assert (drawn.shape, drawn.dtype) == (given.shape, dtype)
    assert not torch.equal(drawn, given)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8])
def test_labels_and_masks_are_the_files_own(dtype):
    given = torch.tensor([0, 1, 1], dtype=dtype)
    assert all(draw(name, given, generator()) is given for name in DISTRIBUTIONS)


def test_wide_covers_six_decades_of_both_signs():
    drawn = draw("wide", torch.empty(100_000), generator())
    size = drawn.abs()
    assert size.min() >= 0.99e-3
    assert size.max() <= 1.01e3
    assert 0.45 < (drawn < 0).float().mean() < 0.55
    for low, high in ((1e-3, 1e-2), (1e-1, 1), (1e2, 1e3)):
        assert 0.14 < ((size >= low) & (size < high)).float().mean() < 0.19


def test_tiny_is_tiny_and_zeros_are_zero():
    assert 0 < draw("tiny", torch.empty(1000), generator()).abs().max() < 1e-4
    assert not draw("zeros", torch.ones(10), generator()).any()


def test_triangles_and_symmetry_are_the_tasks_promise():
    square = torch.rand(16, 16)
    for given, lost in ((square.triu(), lambda d: d.tril(-1)), (square.tril(), lambda d: d.triu(1))):
        drawn = draw("normal", given, generator())
        assert not lost(drawn).any()
        assert drawn.diagonal().all()
    symmetric = draw("wide", square + square.mT, generator())
    assert torch.equal(symmetric, symmetric.mT)
    assert draw("normal", square, generator()).tril(-1).any()


def test_the_same_seed_gives_the_same_values():
    assert torch.equal(draw("wide", torch.empty(50), generator()), draw("wide", torch.empty(50), generator()))


def test_jitter_moves_weights_but_keeps_signs_and_zeros():
    weights = torch.tensor([-2.0, 0.0, 3.0, 1e-8])
    moved = jitter(weights, generator())
    assert torch.equal(moved.sign(), weights.sign())
    assert not torch.equal(moved, weights)
    ratio = (moved / weights)[[0, 2, 3]]
    assert ((ratio >= 0.5) & (ratio < 1.5)).all()
    steps = torch.tensor([3])
    assert jitter(steps, generator()) is steps
