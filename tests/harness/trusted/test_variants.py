"""What a task file may declare as its workloads."""

from types import ModuleType

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.nouns.task import Variant
from harness.trusted.variants import (
    BadWorkloadError,
    arguments_of,
    declared_variants,
    held_out_variants,
    variant_apart,
)


def module(**names: object) -> ModuleType:
    made = ModuleType("task")
    made.__dict__.update({"get_inputs": lambda rows=2, columns=3: [], "get_init_inputs": lambda eps=1.0: []} | names)
    return made


def test_a_file_without_declaration_has_the_plain_one():
    assert declared_variants(module()) == (Variant(),)


def test_arguments_go_to_the_function_that_takes_them():
    declared = declared_variants(module(WORKLOADS=[{"rows": 4, "eps": 0.5, "name": "small", "dtype": "float16"}]))
    (variant,) = declared
    assert (variant.name, variant.dtype) == ("small", "float16")
    assert arguments_of(module().get_inputs, variant) == {"rows": 4}
    assert arguments_of(module().get_init_inputs, variant) == {"eps": 0.5}
    assert arguments_of(lambda **kwargs: [], variant) == {"rows": 4, "eps": 0.5}


def test_a_function_may_make_them_and_names_come_from_arguments():
    declared = declared_variants(module(get_workloads=lambda: [{"rows": 4}, {"rows": 8, "columns": 9}, {}]))
    assert [variant.name for variant in declared] == ["rows=4", "rows=8 columns=9", "workload 2"]


@pytest.mark.parametrize(
    ("workloads", "words"),
    [
        ([], "at least one"),
        ({"rows": 3}, "not a list"),
        ([{"depth": 3}], "takes 'depth'"),
        ([{"rows": [1, 2]}], "workload 0: rows is a list, not a number or string"),
        ([{"rows": torch.zeros(40, 40)}], "workload 0: rows is a Tensor"),
        ([{"dtype": "int8"}], "workload 0: dtype"),
        ([{"rows": 1}, {"rows": 1}], "two workloads are called 'rows=1'"),
    ],
)
def test_declarations_that_cannot_be_used(workloads, words):
    with pytest.raises(BadWorkloadError, match=words):
        declared_variants(module(WORKLOADS=workloads))


@pytest.mark.parametrize("seed", range(20))
def test_a_held_out_one_has_odd_sizes_in_between(seed):
    given = [Variant(arguments={"rows": 64, "columns": 7, "eps": 0.1}), Variant(arguments={"rows": 256, "columns": 7})]
    held = next(held_out_variants(given, seed))[0]
    assert held.arguments["rows"] % 2 == 1
    assert 64 <= held.arguments["rows"] <= 257
    assert held.arguments["columns"] == 7
    assert held == next(held_out_variants(given, seed))[0]


@given(st.sets(st.integers(1, 40), min_size=2, max_size=12), st.integers(0, 99))
def test_a_held_out_size_is_none_of_the_declared_ones(sizes, seed):
    declared = [Variant(arguments={"rows": size}, dtype="float16") for size in sizes]
    held = next(held_out_variants(declared, seed))[0]
    rows = held.arguments["rows"]
    assert rows not in sizes
    assert rows % 2 == 1
    assert min(sizes) <= rows <= max(sizes) + 2
    assert (held.name, held.dtype) == ("held out", "float16")


@given(st.sets(st.integers(1, 400), min_size=2, max_size=5), st.integers(0, 99))
def test_further_ones_lie_over_all_that_is_declared_below_and_above(sizes, seed):
    declared = [Variant(arguments={"rows": size, "eps": 0.1}) for size in sizes]
    over, below, *one, above = [*held_out_variants(declared, seed)][1:]
    assert [each.arguments["rows"] for (each,) in one] == [1] * (min(sizes) > 1)
    assert min(sizes) <= over[0].arguments["rows"] <= max(sizes) + len(sizes)
    assert over[0].arguments["rows"] not in sizes
    assert 1 <= below[0].arguments["rows"] <= max(1, min(sizes) // 2)
    far = [each.arguments["rows"] / max(sizes) for each in above]
    assert all(most / 2 - 1 < ratio <= most + 1 for ratio, most in zip(far, (8, 4, 2), strict=True))
    assert above[0].arguments["eps"] == 0.1


def test_each_size_is_once_1_beside_usual_others():
    declared = [Variant(arguments={"rows": 8, "columns": 16}), Variant(arguments={"rows": 32, "columns": 1})]
    held = {each.name: each.arguments for each, *_ in held_out_variants(declared, 1)}
    assert held["one rows"]["rows"] == 1 and "one columns" not in held
    assert held["one rows"]["columns"] == held["held out"]["columns"]


def test_nothing_is_held_out_where_no_size_differs():
    plain = Variant(arguments={"rows": 4, "flag": True, "eps": 0.5})
    assert [*held_out_variants([plain], 1)] == []
    other = Variant(arguments={"rows": 4, "flag": False, "eps": 0.7})
    assert [*held_out_variants([plain, other], 1)] == []


@pytest.mark.parametrize(
    ("sizes", "apart"),
    [
        ([{"m": 128, "n": 128}, {"m": 64, "n": 64}], {"m": 128, "n": 192}),
        ([{"m": 128, "n": 256}, {"m": 64, "n": 128}], {"m": 128, "n": 384}),
        ([{"m": 128, "n": 64}, {"m": 64, "n": 64}], None),
        ([{"m": 128, "n": 64}, {"m": 64, "n": 128}], None),
    ],
)
def test_sizes_that_agree_by_chance_are_told_apart(sizes, apart):
    variant = variant_apart([Variant(arguments=each) for each in sizes])
    assert (variant and variant.arguments) == apart
