"""What integers and masks show, and that variations show the same."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.checks import variations as varied
from harness.checks.discrete import BEYOND, BY_ROWS, COUNTED, FAR, MANY, WAYS, base_of, candidates, reach_of, show
from harness.checks.variations import change_few, swap_few, vary

EXAMPLES = {
    "positions": lambda g: torch.arange(12).repeat(3, 1),
    "ascending": lambda g: torch.randint(0, 90, (4, 30), generator=g).sort(-1).values,
    "distinct": lambda g: torch.stack([torch.randperm(40, generator=g)[:15] for _ in range(5)]),
    "triangle": lambda g: torch.ones(2, 9, 9, dtype=torch.bool).tril(),
    "prefix": lambda g: torch.arange(16) < torch.randint(3, 14, (8, 1), generator=g),
    "suffix": lambda g: torch.arange(16) >= torch.randint(3, 14, (8, 1), generator=g),
    "one_hot": lambda g: torch.nn.functional.one_hot(torch.randint(7, (20,), generator=g), 7),
    "flags": lambda g: torch.rand(20, 20, generator=g) < 0.3,
    "full": lambda g: torch.full((6,), 32),
    "ones": lambda g: torch.ones(6, dtype=torch.int64),
    "fixed": lambda g: torch.zeros(5, dtype=torch.int64),
    "values": lambda g: torch.randint(-100, 101, (6, 50), generator=g, dtype=torch.int8),
}


def drawn(kind, seed):
    return EXAMPLES[kind](torch.Generator().manual_seed(seed))


def variations(kind, seed):
    """The shown kind, and each variation of a draw under it."""
    draws = [drawn(kind, seed), drawn(kind, seed + 1)]
    shown, generator = show(draws), torch.Generator().manual_seed(seed)
    return shown, {way: vary(base_of(draws[0]), shown, way, generator) for way in shown.ways}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_kind_is_told_by_what_all_draws_have_in_common(kind):
    assert show([drawn(kind, 1), drawn(kind, 2)]).kind == kind
    assert set(WAYS) == set(EXAMPLES)


@given(st.sampled_from(sorted(EXAMPLES)), st.integers(0, 1 << 30))
def test_every_variation_keeps_type_shape_and_range(kind, seed):
    shown, changed = variations(kind, seed)
    low, high = (bound.long() for bound in (shown.low, shown.high))
    for way, values in changed.items():
        assert (values.dtype, values.shape) == (drawn(kind, seed).dtype, drawn(kind, seed).shape)
        if way not in {"lowered", "shortened", "emptied", "flipped", "set", "cleared", "few", *BEYOND, *BY_ROWS}:
            assert ((values.long() >= low) & (values.long() <= high)).all(), way
    if kind == "full":
        assert ((changed["lowered"] >= 16) & (changed["lowered"] <= 32)).all()
        assert ((changed["shortened"] >= 1) & (changed["shortened"] <= 32)).all()
        assert ((changed["emptied"] >= 0) & (changed["emptied"] <= 32)).all() and not changed["emptied"].all()
    if kind in ("ones", "fixed"):
        assert ((changed["raised"] > low) & (changed["raised"] <= low + 8)).all()
        assert [{*changed[way].tolist()} for way in ("counted", "due")] == [{MANY}, {MANY - 1}]
        assert not COUNTED & {*replace(shown, extent=64).ways}, "of a table it names places"


@given(st.sampled_from(["ascending", "distinct", "positions", "one_hot", "prefix", "suffix"]), st.integers(0, 1 << 30))
def test_a_kind_stays_what_it_is(kind, seed):
    _, changed = variations(kind, seed)
    kept = {
        way: values for way, values in changed.items() if way not in {"flipped", "set", "cleared", "doubled", *BY_ROWS}
    }
    assert kept
    for way, values in kept.items():
        rows, told = values.long(), drawn(kind, seed).long()
        if kind == "ascending":
            assert (rows.diff(dim=-1) >= 0).all(), way
            assert torch.equal(rows[..., [0, -1]], told[..., [0, -1]]), way
        elif kind in ("distinct", "positions"):
            assert torch.equal(rows.sort(-1).values, told.sort(-1).values), way
        else:
            assert show([values]).kind == kind, way


@pytest.mark.parametrize("kind", ["distinct", "positions"])
def test_what_is_distinct_repeats_its_own_values(kind):
    _, changed = variations(kind, 3)
    rows, given = changed["doubled"].long(), drawn(kind, 3).long()
    assert (rows.sort(-1).values.diff(dim=-1) == 0).any()
    assert all(set(row.tolist()) <= set(own.tolist()) for row, own in zip(rows, given, strict=True))


@given(st.lists(st.integers(1, 9), min_size=2, max_size=40), st.integers(0, 1 << 30))
def test_offsets_become_equal_in_order_between_the_same_ends(steps, seed):
    values = torch.tensor([0, *steps]).cumsum(0)
    merged = varied._merged(values, show([values]), torch.Generator().manual_seed(seed))
    steps_now = merged.diff()
    assert (steps_now >= 0).all() and (steps_now == 0).any()
    assert (merged[0], merged[-1]) == (values[0], values[-1])


@pytest.mark.parametrize(
    ("draw", "own", "beyond", "found"),
    [
        (torch.tensor([5, 9, 5, 7]), (), True, (0, 1, 10)),
        (torch.tensor([5, 9, 5, 7]), (-100, 7), False, (-100, 0, 1)),
        (torch.tensor([-3, 127, 5, 5], dtype=torch.int8), (-300,), True, ()),
        (torch.zeros(4, dtype=torch.int64), (2,), True, (2, 1)),
        (torch.arange(6), (-100,), False, (-100,)),
        (torch.tensor([0, 3, 9, 9]), (-100,), True, ()),
        (torch.rand(9) < 0.5, (), True, ()),
    ],
    ids=["values", "not beyond", "limits of the type", "zeros", "positions", "ascending", "flags"],
)
def test_values_that_may_be_legal_outside_of_what_is_shown(draw, own, beyond, found):
    shown = show([draw])
    if shown.kind == "fixed":
        found = tuple(value for value in found if value != 0)
    assert candidates(shown, draw.dtype, own, beyond=beyond) == found
    if found:
        wider = dataclasses.replace(shown, extras=found)
        assert wider.ways[-1] == "planted"
        planted = vary(draw.repeat(9), wider, "planted", torch.Generator().manual_seed(1))
        assert set(planted.tolist()) <= {*draw.tolist(), *found} and {*found} & {*planted.tolist()}


@given(st.lists(st.integers(1, 9), min_size=3, max_size=40), st.integers(0, 1 << 30))
def test_what_rises_strictly_goes_on_to(steps, seed):
    values = torch.tensor([0, *steps]).cumsum(0)
    shown = show([values])
    for way in ("nudged", "reflected", "respread"):
        changed = vary(values, shown, way, torch.Generator().manual_seed(seed))
        if shown.kind == "ascending":
            assert (changed.diff() > 0).all(), way
            assert (changed[0], changed[-1]) == (values[0], values[-1]), way


@pytest.mark.parametrize(("way", "before", "after"), [("set", False, True), ("cleared", True, False)])
def test_flags_are_set_or_cleared_in_some_places_and_no_other_way(way, before, after):
    for mask in (torch.full((30, 30), before), drawn("flags", 3)):
        changed = vary(mask, show([mask]), way, torch.Generator().manual_seed(1))
        assert 8 < int((changed != mask).sum()) < 200
        assert (changed[changed != mask] == after).all()


@pytest.mark.parametrize("kind", ["flags", "triangle", "prefix", "suffix"])
def test_rows_of_a_mask_are_hidden_as_a_whole(kind):
    _, changed = variations(kind, 3)
    given = drawn(kind, 3)
    for way, value in (("rows cleared", False), ("rows set", True)):
        whole = (changed[way] == value).all(-1)
        assert torch.equal(changed[way][~whole], given[~whole])
        assert whole.any() and int(whole.sum() - (given == value).all(-1).sum()) <= max(1, whole.numel() // 4)
    for alone in (torch.arange(9) % 3 > 0, (torch.arange(9) > 5).expand(4, 9)):
        assert not BY_ROWS & {*show([base_of(alone)]).ways}, "of a single row nothing would be left"


@pytest.mark.parametrize("kind", ["values", "flags", "ascending", "distinct", "prefix", "full"])
def test_each_variation_differs_from_the_last(kind):
    draw, generator = drawn(kind, 4), torch.Generator().manual_seed(4)
    shown = show([draw])
    for way in shown.timed:
        several = [vary(draw, shown, way, generator) for _ in range(4)]
        assert sum(torch.equal(one, other) for one in several for other in several) < 16, way
        assert not all(torch.equal(one, draw) for one in several), way


@pytest.mark.parametrize("kind", ["values", "flags", "ascending", "distinct", "prefix", "full", "triangle"])
def test_a_few_elements_change_as_in_a_timed_call(kind):
    draw, generator = drawn(kind, 4), torch.Generator().manual_seed(4)
    shown = show([draw])
    for way in shown.timed:
        several = [change_few(draw.clone(), shown, way, generator) for _ in range(6)]
        changed = [int((each != draw).sum()) for each in several]
        assert any(changed) and sum(changed) < 6 * draw.numel() / 2, way
    if kind in ("ascending", "distinct", "prefix"):
        several = [change_few(draw.clone(), shown, shown.timed[0], generator) for _ in range(6)]
        assert {show([each]).kind for each in several} == {kind}


@pytest.mark.parametrize("kind", ["values", "flags"])
def test_what_moves_is_also_of_other_values(kind):
    """Sums, counts and sorted values of a timed call are its own."""
    draw, generator = drawn(kind, 4), torch.Generator().manual_seed(4)
    sums = {int(vary(draw, show([draw]), "renewed", generator).sum()) for _ in range(12)}
    assert len(sums) > 5
    assert {int(vary(draw, show([draw]), "moved", generator).sum()) for _ in range(12)} == {int(draw.sum())}


def test_one_value_fills_a_tensor_that_has_one_range():
    draw = torch.randint(0, 256, (4, 900), dtype=torch.uint8)
    found = {
        tuple(vary(draw, show([draw]), "alone", torch.Generator().manual_seed(k)).unique().tolist()) for k in range(9)
    }
    assert len(found) > 1 and all(len(each) == 1 for each in found)


def test_places_are_anywhere_in_the_table_and_apart_where_equals_are_ambiguous():
    draw, generator = torch.tensor([[0, 1], [0, 1]]), torch.Generator().manual_seed(3)
    shown = replace(show([draw]), extent=5)
    free = torch.stack([vary(draw, shown, "placed", generator) for _ in range(60)])
    apart = torch.stack([vary(draw, replace(shown, apart=True), "placed", generator) for _ in range(60)])
    for places in (free, apart):
        assert set(places.unique().tolist()) == set(range(5))
        assert (places[..., 0] > places[..., 1]).any()
    assert (free[..., 0] == free[..., 1]).any()
    assert all(len(places.unique()) == places.numel() for places in apart)
    many = vary(torch.zeros(600, dtype=torch.long), replace(shown, extent=16), "placed", generator)
    assert len(many.unique()) == 14, "an eighth of the table is named by none"


@pytest.mark.parametrize(
    ("dtype", "computed", "reach"),
    [
        (torch.uint8, False, (0, 255)),
        (torch.int8, False, (-128, 127)),
        (torch.int16, False, (-32768, 32767)),
        (torch.int32, True, None),
        (torch.int64, False, None),
        (torch.int64, True, (-FAR, FAR)),
    ],
)
def test_numbers_reach_the_ends_of_small_types_and_of_keys(dtype, computed, reach):
    draw = torch.randint(3, 50, (4, 100)).to(dtype)
    shown = show([draw])
    assert reach_of(shown, dtype, computed=computed) == reach
    if reach:
        values = vary(draw, replace(shown, reach=reach), "saturated", torch.Generator().manual_seed(1))
        assert (int(values.min()), int(values.max())) == reach
        assert ((values > reach[0]) & (values < reach[1])).any()


def test_columns_keep_ranges_of_their_own():
    """Rows and columns of a matrix, side by side: neither takes the other's place."""
    draw = torch.stack([torch.arange(40) % 5, torch.arange(40) * 7 % 31], 1)
    for values in variations_of(draw):
        assert int(values[:, 0].max()) <= 4 and int(values[:, 1].max()) <= 30


def variations_of(draw):
    shown = show([draw])
    assert shown.kind == "values"
    generator = torch.Generator().manual_seed(2)
    return [vary(draw, shown, way, generator) for way in shown.ways] + [swap_few(draw.clone(), shown, generator)]


def test_a_few_places_are_swapped_where_the_order_says_nothing():
    generator = torch.Generator().manual_seed(5)
    distinct, rising = drawn("distinct", 1), drawn("ascending", 1)
    swapped = swap_few(distinct.clone(), show([distinct]), generator)
    assert int((swapped != distinct).any(0).sum()) == 2
    assert torch.equal(swapped.sort(-1).values, distinct.sort(-1).values)
    assert torch.equal(swap_few(rising.clone(), show([rising]), generator), rising)


def test_what_is_expanded_has_the_elements_that_are_there():
    row = torch.arange(5)
    assert base_of(row.expand(4, 5)).shape == (1, 5)
    assert base_of(torch.tensor(3)).shape == (1,)
    assert show([torch.tensor(3), torch.tensor(9)]).kind == "values"
