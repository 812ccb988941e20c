"""The algebra of indices: what is simplified has the values, and keeps to the bounds, of what was written."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.compiler.ir.index import Axis, Index, Quotient, along, axes, linear, unravelled
from knowledge.compiler.ir.nodes import Values
from knowledge.compiler.ir.strides import packed_strides
from knowledge.compiler.ir.verify import MalformedError, verify
from knowledge.compiler.problem import Tensor

Places = Mapping[Axis, int]


def value_at(index: Index, places: Places) -> int:
    total = index.offset
    for atom, times in index.terms:
        if isinstance(atom, Axis):
            part = places[atom]
        else:
            inner = value_at(atom.of, places)  # type: ignore[union-attr]
            part = inner // atom.by if isinstance(atom, Quotient) else inner % atom.by  # type: ignore[union-attr]
        total += times * part
    return total


@given(st.data())
def test_an_index_has_the_values_of_what_was_written(data: st.DataObject) -> None:
    loops = axes("i", data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    made: list[tuple[Index, Callable[[Places], int]]] = [
        (along(axis), lambda at, axis=axis: at[axis]) for axis in loops
    ]
    for _ in range(data.draw(st.integers(1, 6))):
        (one, first), (two, second) = data.draw(st.sampled_from(made)), data.draw(st.sampled_from(made))
        by, times = data.draw(st.integers(1, 12)), data.draw(st.integers(-6, 6))
        kind = data.draw(st.sampled_from("/%+*"))
        made.append(
            {
                "/": (one // by, lambda at, f=first, by=by: f(at) // by),
                "%": (one % by, lambda at, f=first, by=by: f(at) % by),
                "+": (one + two, lambda at, f=first, g=second: f(at) + g(at)),
                "*": (one * times + 3, lambda at, f=first, times=times: f(at) * times + 3),
            }[kind]
        )
    for steps in itertools.product(*(range(axis.extent) for axis in loops)):
        places = dict(zip(loops, steps, strict=True))
        for index, meant in made:
            low, high = index.bounds
            assert low <= value_at(index, places) == meant(places) <= high


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_reshaping_there_and_back_leaves_the_axes(shape: list[int]) -> None:
    loops, flat = axes("i", shape), (packed_strides(tuple(shape)))
    place = linear(map(along, loops), flat)
    assert unravelled(place, tuple(shape)) == tuple(map(along, loops))
    (line,) = axes("i", (packed_strides(tuple(shape))[0] * shape[0],))
    assert linear(unravelled(along(line), tuple(shape)), flat) == along(line)


def test_what_no_pass_may_make_is_named() -> None:
    graph = Values()
    x = graph.load(Tensor(name="x", shape=(4,), strides=(1,), dtype="float32"))
    (axis,) = axes("i", (4,))
    beyond = graph.map((4,), graph.read(x, (along(axis) + 1,)))
    with pytest.raises(MalformedError, match="not said to be partial"):
        verify([beyond])
    mixed = graph.element("add", "float32", graph.read(x, (along(axis),)), graph.const(1, "int64"))
    with pytest.raises(MalformedError, match="add of float32, int64"):
        verify([graph.map((4,), mixed)])
    with pytest.raises(MalformedError, match="axes of another value"):
        verify([graph.map((3,), graph.read(x, (along(axis),)))])
