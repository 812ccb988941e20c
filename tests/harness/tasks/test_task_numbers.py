"""Numbers of a task's file: found where they are constant, computed where they are written as a sum or a power."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.tasks.numbers import whole_numbers, with_numbers


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("n = 2048 * 2", [4096]),
        ("n, m = 2**14, 1 << 20", [16384, 1 << 20]),
        ("n = 64 * k", [64]),
        ("n = 10 - 3 // 2 + 1", [10]),
        ("n = -5; flag = True; x = 2.5; t = '7'", [5]),
        ("n = f'{12}'", []),
        ("n = 2**99999999", [2, 99999999]),
        ("n = 1 // 0", [1, 0]),
        ("n = (", []),
    ],
)
def test_constant_expressions_are_numbers(text: str, values: list[int]) -> None:
    assert [value for _, value in whole_numbers(text)] == values


SUM = st.recursive(
    st.integers(0, 90).map(str),
    lambda inner: st.tuples(inner, st.sampled_from("+*-"), inner).map(lambda parts: f"({' '.join(parts)})"),
    max_leaves=6,
)


@given(SUM)
def test_what_is_computed_is_what_python_computes_and_can_be_replaced(text: str) -> None:
    source = f"größe = 'ß'; x = {text}  # 7\nf(y={text}, n=3)"
    found = whole_numbers(source)
    assert [value for _, value in found] == [eval(text), eval(text), 3]
    changed = with_numbers(source, {place: 9 for place, _ in found[:2]})
    assert [value for _, value in whole_numbers(changed)] == [9, 9, 3]
    assert changed.startswith("größe = 'ß'; x = ")
