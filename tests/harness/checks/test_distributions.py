"""Inputs beyond the file's own: their ranges, and the structure that they keep."""

import math

import hypothesis
import pytest
import torch
from hypothesis import strategies as st

from harness.checks import distributions
from harness.checks.distributions import BLOCK, DISTRIBUTIONS, ORDER, PLANTED, STIRRED, Stirring, jitter, specials


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def draw(name: str, given: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return distributions.draw(name, given, generator, "elementwise")


def test_every_trial_names_a_distribution():
    assert set(ORDER) == {"given", STIRRED, *DISTRIBUTIONS}


def test_the_given_values_are_left_alone():
    given = torch.rand(4, 4)
    assert draw("given", given, generator()) is given
    assert draw(STIRRED, given, generator()) is given


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
    batch = torch.rand(3, 5, 5).tril()
    assert not draw("normal", batch, generator()).triu(1).any()
    assert draw("normal", torch.rand(3, 5, 4).tril(), generator()).triu(1).any()
    almost = square.triu()
    almost[1, 0] = 1
    assert draw("normal", almost, generator()).tril(-1).any()
    for number in (torch.rand(1, 1), torch.rand(4, 1, 1)):
        assert draw("normal", number, generator()).all()
    symmetric = draw("wide", square + square.mT, generator())
    assert torch.equal(symmetric, symmetric.mT)
    assert draw("normal", square, generator()).tril(-1).any()


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("op_class", ["elementwise", "reduction"])
def test_the_same_seed_gives_the_same_values(name, op_class):
    """And nothing else does: a verdict is replayed by its seed."""
    one, other = (distributions.draw(name, torch.empty(500), generator(), op_class) for _ in range(2))
    assert torch.equal(one.view(torch.int32), other.view(torch.int32))
    weights = torch.ones(500)
    assert torch.equal(jitter(weights, generator()), jitter(weights, generator()))


def test_the_scales_are_as_named():
    for name, scale in (("normal", 1), ("tiny", 1e-5)):
        drawn = draw(name, torch.empty(100_000), generator())
        assert drawn.std() == pytest.approx(scale, rel=0.02)
        assert abs(drawn.mean()) < 0.02 * scale
    lanes = draw("wide", torch.empty(8000), generator()).sign().view(-1, 8).sum(0)
    assert (lanes.abs() < 200).all(), "an honest sum's lanes hold numbers of both signs"


def test_values_are_written_where_they_are_wanted():
    place = torch.empty(8, 4)
    assert distributions.draw("normal", torch.ones(8, 4), generator(), "other", place) is place
    across = torch.full((4, 8), 7.0).T
    drawn = distributions.draw("normal", torch.ones(8, 4), generator(), "other", across)
    assert drawn is not across
    assert torch.equal(drawn, place)
    assert (across == 7).all()


def test_jitter_moves_weights_but_keeps_signs_and_zeros():
    weights = torch.tensor([-2.0, 0.0, 3.0, 1e-8])
    moved = jitter(weights, generator())
    assert torch.equal(moved.sign(), weights.sign())
    assert not torch.equal(moved, weights)
    ratio = (moved / weights)[[0, 2, 3]]
    assert ((ratio >= 0.5) & (ratio < 1.5)).all()
    steps = torch.tensor([3])
    assert jitter(steps, generator()) is steps
    for dtype in (torch.float64, torch.float16):
        many = jitter(torch.full((10, 1000), 2.0, dtype=dtype), generator())
        assert (many.dtype, many.shape) == (dtype, (10, 1000))
        assert 1 <= many.min() < 1.01
        assert 2.99 < many.max() <= 3


def test_uniform_has_both_signs_and_an_end():
    drawn = draw("uniform", torch.empty(10_000), generator())
    assert -1 <= drawn.min() < -0.99
    assert 0.99 < drawn.max() <= 1


def test_large_tensors_repeat_a_block_whose_length_fits_no_row():
    drawn = draw("normal", torch.empty(1025, 1024), generator())
    flat = drawn.flatten()
    assert torch.equal(flat[BLOCK:], flat[: flat.numel() - BLOCK])
    assert not torch.equal(drawn[0], drawn[1024])
    assert all(BLOCK % factor for factor in (2, 3, 5, 7, 11, 13))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_pointwise_operations_see_every_special_value(dtype):
    drawn = draw("special", torch.empty(4096, dtype=dtype), generator())
    for value in specials(dtype, "elementwise"):
        wanted = torch.tensor(value, dtype=dtype)
        assert (drawn.isnan() if math.isnan(value) else drawn == wanted).any(), value
    assert torch.isfinite(drawn).float().mean() > 0.98
    assert torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps > 0
    assert ((drawn != 0) & (drawn.abs() < torch.finfo(dtype).smallest_normal)).any()


def test_special_values_are_what_such_operations_are_defined_on():
    facts = torch.finfo(torch.float32)
    tiny = facts.smallest_normal
    small = ["-0.0", str(tiny), str(-tiny / 4), str(tiny * facts.eps)]
    infinite = ["inf", "-inf", "nan"]
    assert [*map(str, specials(torch.float32, "other"))] == small
    for op_class in ("gemm", "reduction"):
        assert [*map(str, specials(torch.float32, op_class))] == infinite + small
    assert [*map(str, specials(torch.float32, "elementwise"))] == [*infinite, *small, str(facts.max), str(facts.min)]


@pytest.mark.parametrize(("op_class", "share", "most"), [("elementwise", 2, 64), ("reduction", 64, 40)])
@hypothesis.given(seed=st.integers(0, 1000), size=st.integers(1, 9000))
def test_special_values_are_few_and_the_last_element_is_one(op_class, share, most, seed, size):
    drawn = distributions.draw("special", torch.empty(size), torch.Generator().manual_seed(seed), op_class)
    plain = distributions.draw("normal", torch.empty(size), torch.Generator().manual_seed(seed), op_class)
    different = drawn.view(torch.int32) != plain.view(torch.int32)
    assert different[-1]
    assert int(different.sum()) <= max(1, min(most, size // share))
    if size >= 64 * most:  # few are drawn twice
        assert int(different.sum()) > most * 0.8
        kinds = {str(value) for value in drawn[different].tolist()}
        assert len(kinds) == len(specials(torch.float32, op_class))


@pytest.mark.parametrize("op_class", ["gemm", "reduction", "other"])
def test_sums_see_no_value_whose_sum_depends_on_its_order(op_class):
    drawn = distributions.draw("special", torch.empty(64, 64), generator(), op_class)
    finite = drawn[torch.isfinite(drawn)]
    assert finite.abs().max() < 10
    assert (finite.numel() < drawn.numel()) == (op_class != "other")
    assert 64 - torch.isfinite(drawn).all(1).sum() < 40  # rows stay clean


def test_a_triangle_keeps_its_zeros_among_special_values():
    drawn = distributions.draw("special", torch.rand(200, 200).triu(), generator(), "gemm")
    assert not drawn.tril(-1).any()


def test_a_sparse_lower_half_is_no_triangle():
    given = torch.rand(300, 300).triu()
    given[200, 100] = 1
    assert draw("normal", given, generator()).tril(-1).any()
    almost = torch.rand(300, 300)
    almost = almost + almost.mT
    almost[200, 150] += 1
    drawn = draw("normal", almost, generator())
    assert not torch.equal(drawn, drawn.mT)


@pytest.mark.parametrize("shape", [(7,), (37, 129), (3, BLOCK // 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_stirring_changes_every_element_each_time_anew_and_keeps_zeros_signs_and_bounds(shape, dtype):
    given = torch.randn(shape, generator=generator()).to(dtype)
    given.view(-1)[::5] = 0
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
        strange = stirring.stir(given, plant=True)
        planted = (strange < 0) | (strange > given)
        assert 0 < planted.sum() <= PLANTED
        assert (strange.abs() <= 4 * given).all()
        assert not torch.signbit(strange[3]).any()
        seen += planted
    assert (strange[planted] < 0).any()
    assert seen.bool().sum() > 40 * PLANTED * 0.9


def test_stirring_keeps_structure_and_strides():
    square = torch.rand(16, 16, generator=generator())
    stirring = Stirring(generator())
    symmetric = stirring.stir(square + square.mT, plant=True)
    assert torch.equal(symmetric, symmetric.mT)
    assert not stirring.stir(square.triu(), plant=True).tril(-1).any()
    turned = stirring.stir(torch.rand(5, 9, generator=generator()).mT, torch.empty(5, 9).mT)
    assert turned.shape == (9, 5)
    assert not stirring.stir(square).tril(-1).equal(square.tril(-1))
