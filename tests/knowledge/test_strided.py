"""Shapes, loops over strides and promotion, against torch's own on random shapes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from knowledge.compiler.emit.source_text import identifiers, tensor_names
from knowledge.compiler.ir import dtypes
from knowledge.compiler.ir import strides as space
from knowledge.compiler.ir import strides as strided

DTYPES = {
    name: getattr(torch, name)
    for name in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
}
SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """A dense tensor, permuted, perhaps expanded."""
    tensor = torch.empty(draw(SHAPES))
    tensor = tensor.permute(draw(st.permutations(range(tensor.dim()))))
    return tensor.unsqueeze(0).expand(3, *tensor.shape) if draw(st.booleans()) else tensor


@given(SHAPES)
def test_shapes_broadcast_as_torchs(shape: tuple[int, ...]) -> None:
    narrow = tuple(1 if k % 2 else extent for k, extent in enumerate(shape))
    assert strided.broadcast_shape((narrow, shape, (1,))) == tuple(torch.broadcast_shapes(narrow, shape))


@given(tensors(), st.data())
def test_a_collapsed_space_visits_the_same_elements(tensor: torch.Tensor, data: st.DataObject) -> None:
    other = torch.empty(tuple(tensor.shape)).permute(*range(tensor.dim()))
    made = space.collapse(tuple(tensor.shape), [other.stride(), tensor.stride()])

    def visited(shape: tuple[int, ...], strides: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        grid = torch.cartesian_prod(*(torch.arange(extent) for extent in shape)).view(-1, len(shape))
        offsets = [(grid * torch.tensor(each)).sum(1) for each in strides]
        return sorted(zip(*(each.tolist() for each in offsets), strict=True))

    shape = tuple(tensor.shape)
    if tensor.numel() > 1:
        assert visited(made.extents, list(made.strides)) == visited(shape, [other.stride(), tensor.stride()])
    assert made.columns * made.rows == tensor.numel()


@pytest.mark.parametrize("left", DTYPES)
@pytest.mark.parametrize("right", DTYPES)
def test_promotion_is_torchs(left: str, right: str) -> None:
    def tensor(name: str, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.ones(shape, dtype=DTYPES[name])

    assert DTYPES[dtypes.promote([left, right], [], [])] == torch.result_type(tensor(left, (2,)), tensor(right, (2,)))
    assert DTYPES[dtypes.promote([left], [right], [])] == torch.result_type(tensor(left, (2,)), tensor(right, ()))
    for number in (True, 3, 2.5):
        assert DTYPES[dtypes.promote([left], [], [number])] == torch.result_type(tensor(left, (2,)), number)


@given(st.lists(st.text(max_size=12), unique=True, max_size=8))
def test_identifiers_are_distinct_and_legal(names: list[str]) -> None:
    made = identifiers(names)
    assert len(set(made.values())) == len(names)
    assert all(name.isascii() and name.isidentifier() for name in made.values())
    assert len(set(tensor_names(made).values())) == len(names)


def test_identifiers_avoid_keywords_and_the_kernels_own_names() -> None:
    made = identifiers(["linear.weight", "linear_weight", "switch", "x", "i", "mX", "2d", "sweep1", "load"])
    assert list(made.values()) == [
        "linear_weight",
        "linear_weight_2",
        "switch_",
        "x",
        "i_",
        "mX_",
        "t2d",
        "sweep1_",
        "load_",
    ]
