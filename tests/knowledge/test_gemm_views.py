"""Views against torch's own: the same elements in the same order, without a copy."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from knowledge.playbook.gemm_views import UncoveredError, View, expand, pair
from knowledge.playbook.problem import Tensor


def offsets(view: View) -> list[int]:
    """Element offsets in row-major order of the view."""
    per_dim = [
        [_offset(dim, index) for index in range(extent)] for dim, extent in zip(view.dims, view.shape, strict=True)
    ]
    return [sum(parts) for parts in product(*per_dim)]


def _offset(dim, index):
    total = 0
    for extent, stride in reversed(dim):
        total += index % extent * stride
        index //= extent
    return total


def seen(tensor: torch.Tensor) -> list[int]:
    return tensor.reshape(-1).tolist()


def counted(shape: tuple[int, ...]) -> tuple[torch.Tensor, View]:
    tensor = torch.arange(prod(shape)).reshape(shape)
    return tensor, View.of(Tensor(name="t", shape=shape, strides=tensor.stride(), dtype="int64"))


@st.composite
def journeys(draw):
    """A shape and a few permutations and reshapes of it."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    steps = []
    current = shape
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            order = draw(st.permutations(range(len(current))))
            steps.append(("permute", tuple(order)))
            current = tuple(current[axis] for axis in order)
        else:
            current = draw(_factorings(prod(current)))
            steps.append(("reshape", current))
    return shape, steps


@st.composite
def _factorings(draw, numel):
    shape = []
    while numel > 1:
        divisor = draw(st.sampled_from([d for d in range(1, numel + 1) if numel % d == 0]))
        shape.append(divisor)
        numel //= divisor
        if len(shape) == 3:
            break
    return (*shape, numel)


@given(journeys())
def test_permutes_and_reshapes_show_torchs_elements(journey):
    shape, steps = journey
    tensor, view = counted(shape)
    for kind, argument in steps:
        try:
            view = view.permute(argument) if kind == "permute" else view.reshape(argument)
        except UncoveredError:
            assert kind == "reshape"
            return
        tensor = tensor.permute(argument) if kind == "permute" else tensor.reshape(argument)
        assert view.shape == tuple(tensor.shape)
        assert offsets(view) == seen(tensor)


@given(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=4))
def test_powers_of_two_always_reshape(shape):
    tensor, view = counted(tuple(shape))
    flipped = view.permute(tuple(reversed(range(view.rank)))).reshape((prod(shape),))
    assert offsets(flipped) == seen(tensor.permute(*reversed(range(tensor.dim()))).reshape(-1))


def test_a_merge_of_transposed_dimensions_keeps_both_modes():
    _, view = counted((2, 3, 4))
    assert view.permute((2, 0, 1)).reshape((8, 3)).dims == (((4, 1), (2, 12)), ((3, 4),))


def test_broadcast_repeats_with_stride_zero():
    tensor, view = counted((3, 1))
    assert offsets(view.broadcast((2, 3, 4))) == seen(tensor.expand(2, 3, 4))


@pytest.mark.parametrize("shape", [(2,), (4, 2), (2, 2, 2)])
def test_broadcast_refuses_what_torch_refuses(shape):
    _, view = counted((3, 2))
    with pytest.raises(UncoveredError):
        view.broadcast(shape)


@pytest.mark.parametrize("shape", [(5,), (7,), (2, 2)])
def test_reshape_refuses_another_size(shape):
    _, view = counted((2, 3))
    with pytest.raises(UncoveredError):
        view.reshape(shape)


def test_a_dense_tensor_takes_any_shape():
    tensor, view = counted((6, 4))
    assert offsets(view.reshape((8, 3))) == seen(tensor)


def test_reshape_refuses_an_uneven_cut():
    _, view = counted((6, 4))
    with pytest.raises(UncoveredError):
        view.swap(0, 1).reshape((6, 4))


def test_pair_cuts_both_alike():
    assert pair(((6, 4),), ((2, 30), (3, 1))) == ((2, 12, 30), (3, 4, 1))
    assert pair(((2, 30), (3, 1)), ((6, 4),)) == ((2, 30, 12), (3, 1, 4))


@pytest.mark.parametrize(
    ("left", "right"), [(((6, 1),), ((4, 1),)), (((2, 3), (3, 1)), ((3, 2), (2, 1))), (((2, 1),), ())]
)
def test_pair_refuses_cuts_that_do_not_nest(left, right):
    with pytest.raises(UncoveredError):
        pair(left, right)


def test_expand_refuses_another_extent():
    with pytest.raises(UncoveredError):
        expand(((3, 1),), 4)
