"""Errors against the oracle: what passes, what never may."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.checks import errors
from harness.checks.errors import FLOOR_EPS, MULTIPLE, PIECES, Expected, compare, no_flags, scaled_error
from harness.checks.threads import one_thread

EPS = torch.finfo(torch.float32).eps


def expected(oracle: torch.Tensor, dtype: torch.dtype = torch.float32) -> Expected:
    return Expected("output", oracle.double(), oracle.to(dtype))


def test_the_reference_itself_passes_with_its_own_error():
    reference = torch.randn(1000, generator=torch.Generator().manual_seed(1))
    oracle = reference.double() * (1 + 3e-8)
    error = compare(reference.clone(), Expected("output", oracle, reference))
    assert error.bad_fraction == 0
    assert error.first_bad is None
    assert error.relative_l2 == error.reference_relative_l2 > 0
    assert error.max_scaled == error.reference_max_scaled > 0


@given(
    scale=st.sampled_from([1e-30, 1e-6, 1.0, 1e12, 1e30]),
    index=st.integers(0, 4999),
    factor=st.floats(2.0, 1e6),
)
def test_one_element_off_by_more_than_the_floor_is_found_at_any_magnitude(scale, index, factor):
    oracle = torch.linspace(-1, 1, 5000, dtype=torch.float64) * scale
    wanted = expected(oracle)
    rms = float(wanted.oracle.square().mean().sqrt()) if scale > 1e-20 else scale / math.sqrt(3)
    got = wanted.reference.double()
    # Exact reference values have no error of their own, so the tolerance is at most MULTIPLE * 1 ulp + the floor.
    got[index] += factor * (MULTIPLE + FLOOR_EPS) * EPS * (abs(float(oracle[index])) + rms)
    error = compare(got.float(), wanted)
    assert error.bad_fraction == pytest.approx(1 / 5000)
    assert error.first_bad is not None
    assert error.first_bad.index == (index,)


def test_rounding_within_the_floor_passes():
    wanted = expected(torch.linspace(-3, 3, 4096))
    got = wanted.reference * (1 + 2 * EPS)
    assert compare(got, wanted).bad_fraction == 0


def sums(count: int, seed: int, lanes: int = 0) -> tuple[torch.Tensor, Expected]:
    """So many sums of 4000 normal numbers, as added up in this many lanes, and what they should be."""
    terms = torch.randn(count, 4000, generator=torch.Generator().manual_seed(seed))
    got = sum(sum(terms.view(count, -1, lanes or 1).unbind(1)).unbind(1))
    return got, Expected("output", terms.double().sum(1), terms.sum(1))


def test_an_honest_sum_is_right_whatever_luck_the_reference_had():
    drawn = [sums(1, 1000 + seed)[1] for seed in range(7)]
    found = [sums(1, seed, 8) for seed in range(100)]
    assert any(compare(got, wanted).bad_fraction for got, wanted in found), "alone some look wrong"
    assert not any(compare(got, wanted, drawn).bad_fraction for got, wanted in found)


def test_no_draw_makes_a_wrong_sum_right():
    drawn = [sums(1, 1000 + seed)[1] for seed in range(7)]
    for seed in range(50):
        _, wanted = sums(1, seed)
        scale = math.sqrt(4000)
        for off in (1e-5 * scale, -0.01 * scale, math.nan, math.inf):
            error = compare(wanted.reference + off, wanted, drawn)
            assert error.bad_fraction == 1
            assert error.first_bad.index == (0,)


def test_draws_of_whole_numbers_change_nothing():
    wanted = Expected("output", torch.tensor([1, 2]), torch.tensor([1, 2]))
    assert compare(torch.tensor([1, 3]), wanted, [wanted]).bad_fraction == 0.5


@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=50), st.integers(0, 49), st.floats(0, 1e30))
def test_no_more_is_allowed_than_twelve_times_the_references_own_error(values, place, off):
    """Wherever its error lies, in however few elements, and however large it is."""
    oracle = torch.tensor(values, dtype=torch.float64)
    reference = oracle.clone()
    reference[place % len(values)] += off
    error = compare(oracle + 13 * (reference - oracle).abs().max() + 1e-9, Expected("output", oracle, reference))
    assert error.reference_max_scaled == 0 or error.bad_fraction > 0


def test_lower_precision_than_the_reference_is_wrong():
    oracle = torch.randn(4096, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    wanted = Expected("output", oracle, oracle.float())
    got = oracle.to(torch.bfloat16).float()
    assert compare(got, wanted).bad_fraction > 0.5


def test_zeros_never_pass_for_a_softmax_over_many_columns():
    oracle = torch.softmax(torch.rand(2, 400_000, dtype=torch.float64), 1)
    assert float(oracle.max()) < 1e-5
    error = compare(torch.zeros(2, 400_000), Expected("output", oracle, oracle.float()))
    assert error.bad_fraction == 1.0
    assert error.pattern == "all elements"


def test_a_cancelled_sum_is_judged_by_its_neighbours():
    """A reference that is off by an ulp of 1.0 at a result near zero does not make the whole output lenient."""
    oracle = torch.cat([torch.ones(999, dtype=torch.float64), torch.tensor([1e-9], dtype=torch.float64)])
    reference = oracle.float()
    reference[-1] = EPS
    got = reference.clone()
    got[0] += 1e-4
    assert compare(got, Expected("output", oracle, reference)).first_bad is not None
    assert compare(reference, Expected("output", oracle, reference)).bad_fraction == 0


@pytest.mark.parametrize("special", [math.inf, -math.inf, math.nan])
def test_specials_must_be_the_same_ones(special):
    oracle = torch.ones(64, dtype=torch.float64)
    oracle[7] = special
    wanted = expected(oracle)
    assert compare(wanted.reference.clone(), wanted).bad_fraction == 0
    missing = wanted.reference.clone()
    missing[7] = 1.0
    error = compare(missing, wanted)
    assert error.first_bad is not None
    assert error.first_bad.index == (7,)
    added = wanted.reference.clone()
    added[3] = special
    assert compare(added, wanted).bad_fraction == pytest.approx(1 / 64)


def test_an_overflow_of_the_reference_is_expected_where_the_oracle_is_finite():
    oracle = torch.tensor([1.0, 1e300], dtype=torch.float64)
    wanted = Expected("output", oracle, oracle.float())
    assert compare(torch.tensor([1.0, math.inf]), wanted).bad_fraction == 0
    assert compare(torch.tensor([1.0, 3e38]), wanted).bad_fraction == 0.5


def test_errors_at_the_borders_of_pieces_are_seen():
    piece = PIECES["cpu"]
    wanted = expected(torch.ones(piece + 3))
    for index in (0, piece - 1, piece, piece + 2):
        got = wanted.reference.clone()
        got[index] = 2.0
        error = compare(got, wanted)
        assert error.first_bad is not None
        assert error.first_bad.index == (index,)


def test_strided_results_are_read_in_their_own_order():
    oracle = torch.arange(12.0).reshape(3, 4).double()
    wanted = expected(oracle)
    storage = torch.arange(12.0).reshape(3, 4).t().contiguous()
    assert compare(storage.t(), wanted).bad_fraction == 0


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool])
def test_integers_are_exact(dtype):
    reference = torch.tensor([[0, 1], [1, 1]], dtype=dtype)
    wanted = Expected("output", reference, reference)
    assert compare(reference.clone(), wanted).bad_fraction == 0
    got = reference.clone()
    got[1, 0] = 0
    error = compare(got, wanted)
    assert error.bad_fraction == 0.25
    assert error.first_bad is not None
    assert (error.first_bad.index, error.first_bad.expected, error.first_bad.got) == ((1, 0), 1.0, 0.0)


def test_half_precision_outputs_have_their_own_floor():
    oracle = torch.randn(1024, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    wanted = expected(oracle, torch.float16)
    assert compare((oracle * (1 + 1e-3)).half(), wanted).bad_fraction == 0
    assert compare((oracle * 1.05).half(), wanted).bad_fraction > 0


def test_an_output_that_should_be_zero_is_compared_absolutely():
    wanted = expected(torch.zeros(32))
    assert compare(torch.zeros(32), wanted).bad_fraction == 0
    assert compare(torch.full((32,), 1e-3), wanted).bad_fraction == 1.0


def test_a_better_formula_may_stay_finite_where_the_reference_overflows_on_its_way():
    oracle = torch.tensor([100.0, 1.0], dtype=torch.float64)
    wanted = Expected("output", oracle, torch.tensor([math.inf, 1.0]))
    assert compare(torch.tensor([100.0, 1.0]), wanted).bad_fraction == 0
    assert compare(torch.tensor([math.inf, 1.0]), wanted).bad_fraction == 0
    assert compare(torch.tensor([50.0, 1.0]), wanted).bad_fraction == 0.5


@pytest.mark.parametrize("other", [math.inf, -math.inf, math.nan, 0.0])
def test_another_order_may_overflow_elsewhere_where_the_reference_overflows_on_its_way(other):
    """x / (|a * b - c * d| + 1) with large factors: the difference of two infinities, or an fma with one."""
    wanted = Expected("output", torch.tensor([0.3, 1.0]).double(), torch.tensor([math.nan, 1.0]))
    assert compare(torch.tensor([other, 1.0]), wanted).bad_fraction == 0
    assert compare(torch.tensor([other, 1.0]), expected(torch.tensor([0.3, 1.0]).double())).bad_fraction == 0.5
    vanished = Expected("output", torch.tensor([0.3, 1.0]).double(), torch.tensor([0.0, 1.0]))
    assert compare(torch.tensor([other, 1.0]), vanished).bad_fraction == 0
    beyond = Expected("output", torch.tensor([1e300, 1.0]).double(), torch.tensor([math.inf, 1.0]))
    assert compare(torch.tensor([other, 1.0]), beyond).bad_fraction == (0 if other == math.inf else 0.5)


def special(oracle: list[float], reference: list[float], scope: str = "defined") -> Expected:
    return Expected("output", torch.tensor(oracle, dtype=torch.float64), torch.tensor(reference), scope)


def test_among_specials_only_what_the_reference_defines_is_compared():
    """The reference overflowed at 1, cancelled at 2: nobody can be held to either. It does define 0, 3 and 4."""
    wanted = special([1.0, 5.0, 5.0, math.inf, math.nan], [1.0, math.inf, 0.0, math.inf, math.nan])
    error = compare(torch.tensor([1.0, math.nan, 77.0, math.inf, math.nan]), wanted)
    assert error.bad_fraction == 0
    assert error.skipped_fraction == pytest.approx(0.4)
    for index in (0, 3, 4):
        got = wanted.reference.clone()
        got[index] = 2.0
        assert compare(got, wanted).first_bad.index == (index,)


def test_a_product_may_leave_out_zero_times_infinity():
    wanted = special([1.0, math.nan, math.inf], [1.0, math.nan, math.inf], "finite")
    assert compare(torch.tensor([1.0, 3.0, math.nan]), wanted).bad_fraction == 0
    error = compare(torch.tensor([2.0, 3.0, 3.0]), wanted)
    assert error.first_bad.index == (0,)
    assert error.bad_fraction == pytest.approx(1 / 3)


def test_a_product_may_spread_what_is_not_finite_as_products_of_sums_of_blocks_do():
    torch.manual_seed(0)
    a, b = torch.randn(2, 8, 8, dtype=torch.float64)
    a[0, 0] = math.inf
    wanted = Expected("output", a @ b, (a @ b).float(), "finite")

    def strassen(a, b):
        (p, q), (r, s) = [half.chunk(2, 1) for half in a.chunk(2)]
        (t, u), (v, w) = [half.chunk(2, 1) for half in b.chunk(2)]
        m = [
            (p + s) @ (t + w),
            (r + s) @ t,
            p @ (u - w),
            s @ (v - t),
            (p + q) @ w,
            (r - p) @ (t + u),
            (q - s) @ (v + w),
        ]
        upper = torch.cat([m[0] + m[3] - m[4] + m[6], m[2] + m[4]], 1)
        return torch.cat([upper, torch.cat([m[1] + m[3], m[0] - m[1] + m[2] + m[5]], 1)])

    got = strassen(a.float(), b.float())
    assert not torch.isfinite(got[4:]).all()
    assert compare(got, wanted).bad_fraction == 0
    got[1, 1] = 7.0
    assert compare(got, wanted).first_bad.index == (1, 1)
    assert compare(strassen(a.float(), b.float()), Expected("output", a @ b, (a @ b).float())).bad_fraction > 0


def test_a_reduction_may_answer_an_infinity_where_the_reference_lost_it():
    """A running mean of inf is NaN, the sum over the count inf. Neither may be a number, or the other infinity."""
    oracle = [math.nan, math.inf, 1.0]
    wanted = special(oracle, oracle, "reduced")
    for first in (math.nan, math.inf, -math.inf):
        assert compare(torch.tensor([first, math.inf, 1.0]), wanted).bad_fraction == 0
        assert compare(torch.tensor([first, math.nan, 1.0]), wanted).bad_fraction == 0
    assert compare(torch.tensor([2.0, math.inf, 1.0]), wanted).first_bad.index == (0,)
    assert compare(torch.tensor([math.nan, -math.inf, 1.0]), wanted).first_bad.index == (1,)
    assert compare(torch.tensor([math.nan, math.nan, math.nan]), wanted).first_bad.index == (2,)
    assert compare(torch.tensor([math.inf, math.inf, 1.0]), special(oracle, oracle)).first_bad.index == (0,)


def test_extremes_among_specials_do_not_hide_the_rest():
    """One result of 3e38 would make the rms so large that no other element's error could show."""
    oracle = [3e38] + [1.0] * 63
    wanted = special(oracle, oracle)
    got = wanted.reference.clone()
    got[9] = 1.001
    assert compare(got, wanted).first_bad.index == (9,)
    assert compare(torch.zeros(64), wanted).bad_fraction == 1.0


@pytest.mark.parametrize(("share", "bad"), [(0.98, 0), (1.02, 1)])
def test_four_times_the_references_error_is_allowed(share, bad):
    """All oracles are 1, so that a deviation of 2 is a scaled error of 1."""
    oracle = torch.ones(100, dtype=torch.float64)
    reference = oracle.float()
    reference[7] = 1.001
    got = oracle.float()
    got[3] += share * 4 * 0.001
    error = compare(got, Expected("output", oracle, reference))
    assert error.bad_fraction == bad / 100
    assert error.reference_max_scaled == pytest.approx(0.0005, rel=1e-3)


@pytest.mark.parametrize(("share", "bad"), [(0.98, 0), (1.02, 1)])
def test_a_tolerance_is_a_factor_of_all_that_is_allowed(share, bad):
    wanted = replace(expected(torch.ones(100)), tolerance=5.0)
    got = torch.ones(100)
    got[3] += share * 5 * 16 * EPS
    assert compare(got, wanted).bad_fraction == bad / 100


@pytest.mark.parametrize(("units", "bad"), [(15, 0), (17, 1)])
def test_eight_units_of_the_last_place_are_allowed(units, bad):
    got = torch.ones(100)
    got[3] += units * EPS  # beside an rms of 1: half as many, scaled
    assert compare(got, expected(torch.ones(100))).bad_fraction == bad / 100


@pytest.mark.parametrize(("off", "skipped"), [(0.122, 0), (0.126, 1)])
def test_a_reference_off_by_a_twentieth_defines_nothing(off, skipped):
    oracle = [1.0] * 64
    error = compare(torch.ones(64), special(oracle, [1.0 + off, *oracle[1:]]))
    assert error.skipped_fraction == skipped / 64


def test_the_measures_are_what_they_say():
    """rms of 3 and 4 is 3.536, their norm 5."""
    wanted = expected(torch.tensor([3.0, 4.0]))
    error = compare(torch.tensor([3.0, 4.5]), wanted)
    assert error.relative_l2 == pytest.approx(0.5 / 5)
    assert error.max_scaled == pytest.approx(0.5 / (4 + math.sqrt(12.5)))
    assert (error.reference_relative_l2, error.reference_max_scaled) == (0, 0)
    assert (error.first_bad.index, error.first_bad.expected, error.first_bad.got) == ((1,), 4.0, 4.5)
    assert (error.output, error.pattern) == ("output", "the tail from flat index 1 of 2")


def test_a_nan_is_right_where_the_oracle_has_one_and_the_reference_lost_the_sign_on_its_way():
    """The root of a small negative number, which in half precision has vanished before."""
    lost = Expected("output", torch.tensor([math.nan, 2.0]).double(), torch.tensor([-0.0, 2.0]))
    assert compare(torch.tensor([math.nan, 2.0]), lost).bad_fraction == 0
    assert compare(torch.tensor([-0.0, 2.0]), lost).bad_fraction == 0
    assert compare(torch.tensor([1.0, 2.0]), lost).bad_fraction == 0.5
    assert compare(torch.tensor([math.nan, math.nan]), lost).first_bad.index == (1,)


def test_what_should_be_an_infinity_is_shown_as_one():
    overflowed = Expected("output", torch.tensor([[1.0, 7.0]]).double(), torch.tensor([[1.0, math.inf]]))
    bad = compare(torch.tensor([[1.0, 3.0]]), overflowed).first_bad
    assert (bad.index, bad.expected, bad.got) == ((0, 1), math.inf, 3.0)


VALUES = (0.0, 1.0, 1.0 + 3e-7, -2.5, 1e-3, 3e-39, 1e30, math.inf, -math.inf, math.nan)


def distance(got: float, oracle: float, reference: float) -> float:
    """How far one element is off."""
    alike = any(got == wanted or (math.isnan(got) and math.isnan(wanted)) for wanted in (reference, oracle))
    if alike and not (math.isfinite(oracle) and math.isfinite(reference)):
        return 0.0
    off = abs(got - oracle)
    return math.inf if math.isnan(off) or not math.isfinite(oracle) else off


def by_definition(got: float, oracle: float, reference: float, scale: float) -> float:
    """The scaled error of one element."""
    return distance(got, oracle, reference) / (abs(oracle) + scale if math.isfinite(oracle) else 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(data=st.data(), piece=st.integers(1, 13))
def test_it_is_the_definition_however_it_is_cut(dtype, data, piece):
    """Each element by itself, in Python's own numbers: a reference is right or 1, a result is anything."""
    value = st.sampled_from(VALUES if dtype == torch.float32 else (*VALUES, 1e200, -3e200, 1e-170))
    elements = data.draw(st.lists(st.tuples(value, value, st.booleans()), min_size=1, max_size=12))
    oracle = torch.tensor([wanted for wanted, _, _ in elements], dtype=torch.float64)
    got = torch.tensor([value for _, value, _ in elements], dtype=dtype)
    reference = torch.tensor([wanted if right else 1.0 for wanted, _, right in elements], dtype=dtype)
    finite = [wanted for wanted, _, _ in elements if math.isfinite(wanted)]
    scale = math.hypot(*finite) / math.sqrt(len(finite)) if any(finite) else 1.0
    triples = [*zip(got.tolist(), oracle.tolist(), reference.tolist(), strict=True)]
    theirs = [by_definition(*triple, scale) for triple in triples]
    own = max(by_definition(each, exact, each, scale) for _, exact, each in triples)
    squares = [distance(each, exact, each) * distance(each, exact, each) for _, exact, each in triples]
    rms = math.sqrt(sum(squares) / len(squares)) / scale
    allowed = 4 * max(own, 3 * min(rms, own)) + (8 if dtype == torch.float32 else 1024) * torch.finfo(dtype).eps
    wrong = [index for index, error in enumerate(theirs) if not error <= allowed]
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(errors.PIECES, "cpu", piece)
        error = compare(got, Expected("output", oracle, reference))
    assert (error.max_scaled, error.reference_max_scaled) == (pytest.approx(max(theirs)), pytest.approx(own))
    assert error.bad_fraction == len(wrong) / len(elements)
    assert (error.first_bad.index if error.first_bad else None) == ((wrong[0],) if wrong else None)
    assert bool(error.pattern) == bool(wrong)
    assert error.skipped_fraction == 0


def test_among_specials_the_scale_is_the_median_of_what_is_neither_zero_nor_infinite():
    def scaled(*oracle):
        got = torch.tensor(oracle)
        got[-1] += 0.5
        return compare(got, special([*oracle], [*oracle])).max_scaled

    assert scaled(0.0, 0.0, 0.0, 2.0, 3e38, 2.0) == pytest.approx(0.5 / (2 + 1.4826 * 2))
    assert scaled(0.0, math.inf, math.nan, 4.0) == pytest.approx(0.5 / (4 + 1.4826 * 4))
    assert scaled(0.0, math.inf, 0.0) == pytest.approx(0.5 / (0 + 1))


def test_an_exact_output_is_measured_by_how_much_of_it_is_wrong():
    reference = torch.tensor([1, 2, 3, 4])
    wrong = compare(torch.tensor([1, 2, 9, 9]), Expected("y", reference, reference))
    assert (wrong.max_scaled, wrong.relative_l2, wrong.bad_fraction) == (1, pytest.approx(math.sqrt(0.5)), 0.5)
    assert wrong.pattern == "the tail from flat index 2 of 4"
    right = compare(reference, Expected("y", reference, reference))
    assert (right.max_scaled, right.relative_l2, right.pattern, right.first_bad) == (0, 0, "", None)
    for error in (wrong, right):
        assert (error.output, error.reference_relative_l2, error.reference_max_scaled) == ("y", 0, 0)


@pytest.mark.parametrize(
    ("got", "bad"), [([1, 2, 3, 4], 0), ([1, 2, 3, 5], 0), ([1, 2, 3, 6], 0.25), ([5, 4, 3, 4], 0.5)]
)
def test_where_pytorch_rounds_to_one_side_of_a_step_and_the_oracle_to_the_other_both_are_right(got, bad):
    """A product and a sum in one rounding, as compilers make them, find either."""
    both = Expected("y", torch.tensor([1, 2, 3, 5]), torch.tensor([1, 2, 3, 4]))
    assert compare(torch.tensor(got), both).bad_fraction == bad
    flags = Expected("y", torch.tensor([True, True]), torch.tensor([True, False]))
    assert compare(torch.tensor([True, True]), flags).bad_fraction == 0
    assert compare(torch.tensor([False, False]), flags).bad_fraction == 0.5


@pytest.mark.parametrize(("units", "bad"), [(2000, 0), (2100, 1)])
def test_in_float64_the_oracle_is_no_more_exact_than_another_order_of_summation(units, bad):
    """All are 1, so that a deviation of 2 is a scaled error of 1."""
    ones = torch.ones(2000, dtype=torch.float64)
    got = ones.clone()
    got[7] += units * torch.finfo(torch.float64).eps
    assert compare(got, Expected("y", ones, ones)).bad_fraction == bad / 2000


def test_the_distance_between_two_results():
    one = torch.tensor([3.0, 4.0])
    assert scaled_error(one, one.clone()) == 0
    assert scaled_error(torch.tensor([3.0, 4.5]), one) == pytest.approx(0.5 / (4 + math.sqrt(12.5)))
    assert scaled_error(torch.tensor([3.0, math.nan]), one) == math.inf
    assert scaled_error(one, torch.tensor([3.0, math.inf])) == math.inf
    assert scaled_error(torch.tensor([math.nan, 1.0]), torch.tensor([math.nan, 1.0])) == 0
    assert scaled_error(torch.tensor([1, 2]), torch.tensor([1, 2])) == 0
    assert scaled_error(torch.tensor([1, 2]), torch.tensor([1, 3])) == 1


def test_threads_are_put_back_whatever_happens():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(ZeroDivisionError), one_thread() as threads:
            assert (threads, torch.get_num_threads()) == (2, 1)
            raise ZeroDivisionError
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("strange", [None, math.nan, math.inf])
def test_some_elements_are_measured_on_the_scale_of_the_whole(strange):
    whole = torch.ones(4000)
    whole[0] = 1000.0
    if strange is not None:
        whole[1] = strange
    got = whole.clone()
    got[7] += 0.5
    at = torch.tensor([7, 8, 9, 7])
    assert scaled_error(got, whole, at) == pytest.approx(scaled_error(got, whole), rel=1e-6)
    assert scaled_error(got, whole, at[1:3]) == 0


@pytest.mark.parametrize("more", [-PIECES["cpu"], PIECES["cpu"]])
def test_no_piece_goes_without_a_look(more):
    """However many are compared at a time: `map` would end with the shorter side."""
    wanted = expected(torch.ones(3 * PIECES["cpu"], dtype=torch.float64))
    with pytest.raises(ValueError, match="argument"):
        compare(torch.ones(3 * PIECES["cpu"] + more), wanted)


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
