"""Where arguments lie: nothing overlaps, outputs are guarded."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harness.nouns.task import ScalarSpec, Signature, TensorSpec
from harness.wire.layout import ALIGNMENT, GUARD, PAGE, lay_out, slot_bytes, span_bytes


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def spec(name: str, shape: tuple[int, ...], dtype: str = "float32") -> TensorSpec:
    return TensorSpec(name=name, shape=shape, strides=contiguous(shape), dtype=dtype)


shapes = st.lists(st.integers(1, 70), max_size=3).map(tuple)
signatures = st.builds(
    lambda inputs, parameters, outputs: Signature(
        inputs=tuple(spec(f"x{i}", shape) for i, shape in enumerate(inputs)),
        parameters=tuple(spec(f"p{i}", shape, "float64") for i, shape in enumerate(parameters)),
        outputs=tuple(spec(f"y{i}", shape, "int8") for i, shape in enumerate(outputs)),
    ),
    st.lists(shapes, max_size=3),
    st.lists(shapes, max_size=3),
    st.lists(shapes, min_size=1, max_size=3),
)


@given(signatures, st.integers(1, 5))
def test_places_do_not_overlap_and_fit(signature, slots):
    layout = lay_out(signature, slots)
    assert len(layout.places) == slots
    taken: dict[str, list[tuple[int, int]]] = {"in": [], "out": []}
    for position, slot in enumerate(layout.places):
        for place in slot.values():
            guard = GUARD if place.memory == "out" else 0
            assert place.offset % PAGE == (ALIGNMENT if position == 1 else 0)
            taken[place.memory].append((place.offset - guard, place.offset + span_bytes(place.spec) + guard))
    for memory, size in (("in", layout.input_bytes), ("out", layout.output_bytes)):
        spans = sorted(taken[memory])
        assert all(first[1] <= second[0] for first, second in pairwise(spans))
        assert all(start >= 0 and end <= size for start, end in spans)


@given(signatures)
def test_outputs_alone_lie_in_the_writable_segment(signature):
    places = lay_out(signature, 1).places[0]
    assert {name for name, place in places.items() if place.memory == "out"} == {s.name for s in signature.outputs}


def test_scalars_take_no_memory():
    signature = Signature(inputs=(ScalarSpec(name="s", type="float", value=1.0),), outputs=(spec("y", (1,)),))
    assert set(lay_out(signature, 1).places[0]) == {"y"}


def test_a_strided_tensor_needs_the_span_it_addresses():
    strided = TensorSpec(name="x", shape=(3, 4), strides=(10, 2), dtype="float32")
    assert strided.span == 1 + 2 * 10 + 3 * 2
    assert span_bytes(strided) == 4 * 27


def test_slot_bytes_counts_guards_and_alignment():
    signature = Signature(inputs=(spec("x", (1,)),), outputs=(spec("y", (1,)),))
    assert slot_bytes(signature) == PAGE + 3 * PAGE
