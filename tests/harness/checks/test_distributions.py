"""One family's values in the shape and structure of what a file gave; and the special ones among them."""

import math

import hypothesis
import pytest
import torch
from hypothesis import strategies as st

from harness.checks import distributions
from harness.checks.distributions import SINGLES, TIES, plant_single, specials, sprinkle, stretch
from harness.checks.families import FAMILIES
from harness.checks.stirring import BLOCK

DRAWN = [name for name, family in FAMILIES.items() if family.block]


def generator(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draw(name: str, given: torch.Tensor, generator: torch.Generator, **how) -> torch.Tensor:
    return distributions.draw(name, given, generator, "elementwise", **how)


@pytest.mark.parametrize("name", ["given", "stirred", "special"])
def test_what_starts_from_the_given_values_leaves_them_alone(name):
    given = torch.rand(4, 4)
    assert draw(name, given, generator()) is given


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_shape_and_type_are_kept_and_values_replaced(name, dtype):
    given = torch.full((100, 7), 0.5, dtype=dtype)
    drawn = draw(name, given, generator())
    assert (drawn.shape, drawn.dtype) == (given.shape, dtype)
    assert (drawn != given).float().mean() > 0.9
    again = draw(name, given, generator())
    assert torch.equal(drawn, again), "nothing but the seed decides: a verdict is replayed by it"


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8])
def test_labels_and_masks_are_the_files_own(dtype):
    given = torch.tensor([0, 1, 1], dtype=dtype)
    assert all(draw(name, given, generator()) is given for name in FAMILIES)


def test_milder_draws_have_the_files_signs_then_its_range():
    given = torch.rand(50, 50).add_(2)
    for name in DRAWN:
        if name != "masked":
            assert (draw(name, given, generator(), mild=1) >= 0).all(), name
            ranged = draw(name, given, generator(), mild=2)
            assert ((ranged >= given.min() - 1e-5) & (ranged <= given.max() + 1e-5)).all(), name
    assert (draw("wide", -given, generator(), mild=1) <= 0).all()
    large = [draw("large", given - 2.5, generator(), mild=mild).abs().max() for mild in (0, 1)]
    assert large[1] < large[0].sqrt() * 100


def test_masks_leave_a_line_along_each_axis_clear():
    for seed in range(5):
        drawn = draw("masked", torch.rand(40, 30, 9), generator(seed))
        hidden = drawn.isinf()
        assert 0.1 < hidden.float().mean() < 0.6
        assert all(not hidden.all(axis).any() for axis in range(3))
        assert (drawn[hidden] < 0).all()
    assert (draw("masked", torch.rand(400), generator(), mild=1).amax()).isinf()


def test_lines_and_planes_are_hidden_as_a_whole_where_that_is_asked_for():
    for seed in range(5):
        hidden = draw("masked", torch.rand(10, 9, 30, 9), generator(seed), whole=True) == -torch.inf
        assert all(hidden.all(axis).any() for axis in range(4)) and hidden.flatten(2).all(2).any()
        assert hidden.float().mean() < 0.7
        milder = draw("masked", torch.rand(10, 9, 30, 9), generator(seed), mild=1, whole=True)
        assert not milder.isinf().flatten(2).all(2).any()
        small = draw("masked", torch.rand(4, 6), generator(seed), whole=True).isinf()
        assert not any(small.all(axis).any() for axis in range(2)), "a sixth of few is much"


def test_values_are_written_where_they_are_wanted():
    place = torch.empty(8, 4)
    assert distributions.draw("normal", torch.ones(8, 4), generator(), "other", place) is place
    across = torch.full((4, 8), 7.0).T
    drawn = distributions.draw("normal", torch.ones(8, 4), generator(), "other", across)
    assert drawn is not across
    assert torch.equal(drawn, place)
    assert (across == 7).all()


def test_large_tensors_repeat_a_block_whose_length_fits_no_row():
    drawn = draw("normal", torch.empty(1025, 1024), generator())
    flat = drawn.flatten()
    assert torch.equal(flat[BLOCK:], flat[: flat.numel() - BLOCK])
    assert not torch.equal(drawn[0], drawn[1024])
    assert all(BLOCK % factor for factor in (2, 3, 5, 7, 11, 13))


def sprinkled(shape, op_class, seed=5, dtype=torch.float32, **how):
    drawn = torch.full(shape, 0.5, dtype=dtype)
    sprinkle(drawn, generator(seed), op_class, **how)
    return drawn


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_pointwise_operations_see_every_special_value(dtype):
    drawn = sprinkled((4096,), "elementwise", dtype=dtype)
    for value in specials(dtype, "elementwise"):
        wanted = torch.tensor(value, dtype=dtype)
        assert (drawn.isnan() if math.isnan(value) else drawn == wanted).any(), value
    assert (drawn == 0.5).float().mean() > 0.95
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
    assert [*map(str, specials(torch.float32, "reduction", multiplies=True))] == [*infinite, "-0.0"]


@pytest.mark.parametrize(
    ("dtype", "bits", "literal"), [(torch.float32, torch.int32, 0x7FC00000), (torch.float16, torch.int16, 0x7E00)]
)
def test_a_nan_is_a_literal_s_a_gpu_s_and_a_processor_s(dtype, bits, literal):
    drawn = torch.zeros(96, 64, dtype=dtype)
    sprinkle(drawn, generator(), "gemm")
    ends = torch.iinfo(bits)
    assert set(drawn[drawn.isnan()].view(bits).tolist()) == {literal, ends.max, ends.min + literal}


@pytest.mark.parametrize(("op_class", "share", "most"), [("elementwise", 2, 96), ("reduction", 64, 48)])
@hypothesis.given(seed=st.integers(0, 1000), size=st.integers(1, 9000))
def test_special_values_are_few(op_class, share, most, seed, size):
    different = sprinkled((size,), op_class, seed) != 0.5
    halves = min(TIES, size // 16) if op_class == "elementwise" else 0
    assert 0 < int(different.sum()) <= max(1, min(most, size // share)) + halves
    if size >= 64 * most:  # few are drawn twice
        assert int(different.sum()) > most * 0.4


def test_neither_their_places_nor_their_number_tell_special_trials():
    draws = [sprinkled((9000,), "reduction", seed) != 0.5 for seed in range(60)]
    assert sum(bool(draw[-1]) for draw in draws) <= 3
    assert len({int(draw.sum()) for draw in draws}) > 10
    assert torch.stack(draws).any(0).sum() > 1500


def test_where_an_infinity_spreads_a_whole_line_is_nan():
    drawn = sprinkled((20, 30), "other")
    lines = drawn.isnan().all(1)
    assert int(lines.sum()) == 1
    assert drawn[~lines].isfinite().all()
    assert sprinkled((20, 30), "other", mild=1).isfinite().all()
    assert sprinkled((1, 30), "other").isfinite().all()


@pytest.mark.parametrize("op_class", ["gemm", "reduction"])
def test_sums_see_no_value_whose_sum_depends_on_its_order(op_class):
    drawn = sprinkled((64, 64), op_class)
    finite = drawn[torch.isfinite(drawn)]
    assert finite.abs().max() < 10
    assert finite.numel() < drawn.numel()
    assert 64 - torch.isfinite(drawn).all(1).sum() < 40  # rows stay clean


@hypothesis.given(count=st.integers(1, 3000), seed=st.integers(0, 1 << 20), family=st.sampled_from(sorted(DRAWN)))
def test_stretches_of_a_family_leave_most_of_a_tensor_as_it_was(count, seed, family):
    among = torch.full((count,), 7e5)
    stretch(among, generator(seed), family=family, op_class="reduction")
    other = among != 7e5
    assert other.any() and (count < 100 or 0.02 < other.float().mean() < 0.35)


@pytest.mark.parametrize(("op_class", "infinities"), [("elementwise", 2), ("other", 0)])
def test_single_special_values_lie_in_one_line(op_class, infinities):
    drawn = torch.full((40, 5000), 0.5)
    plant_single(drawn, generator(), op_class)
    special = drawn != 0.5
    assert int(special.sum()) == SINGLES and int(special.any(1).sum()) == 1
    assert (int(drawn.isinf().sum()), int(drawn.isnan().sum())) == (infinities, SINGLES - infinities)


def test_what_is_rounded_has_halves_of_either_sign():
    drawn = sprinkled((64, 64), "elementwise").abs()
    assert all((drawn == 0.5**power).any() for power in range(2, 7))
