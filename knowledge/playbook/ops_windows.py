"""Pooling, and what repeats or reorders elements by a pattern: views of a finer shape, and windows tap by tap."""

from __future__ import annotations

from functools import reduce
from itertools import product
from math import prod

from knowledge.playbook import strided
from knowledge.playbook.expressions import Graph, Node, UnwritableError
from knowledge.playbook.lowering import Lower, Lowering
from knowledge.playbook.ops_activations import Terms
from knowledge.playbook.ops_pointwise import multiply, result_dtype
from knowledge.playbook.ops_reductions import Rows
from knowledge.playbook.ops_views import keeping_constants, numbers, permuted, slice_of, tensor_operand
from knowledge.playbook.problem import Argument, Op

# A window is read tap by tap, each a load and a statement.
MOST_TAPS = 128


def _several(argument: Argument, rank: int, op: Op) -> tuple[int, ...]:
    """One number a dimension; a single one stands for all."""
    given = numbers(argument, op)
    return given * rank if len(given) == 1 else given


def _taps(state: Lowering, op: Op, dilation: Argument) -> list[Node]:
    """The elements of every window, one strided view of the operand a tap."""
    rank = int(op.target.split("pool")[1][0])
    node = tensor_operand(state, op)
    window = _several(op.args[1], rank, op)
    steps = _several(state.argument(op, 2, "stride") or window, rank, op)
    apart = _several(dilation, rank, op)
    if any(_several(state.argument(op, 3, "padding", 0), rank, op)):
        raise UnwritableError(f"{op.target} with padding")
    if prod(window) > MOST_TAPS:
        raise UnwritableError(f"{op.target} over windows of more than {MOST_TAPS} elements")
    extents = op.results[0].shape[-rank:]
    if any(
        (extent - 1) * step + (size - 1) * gap >= whole
        for extent, step, size, gap, whole in zip(extents, steps, window, apart, node.shape[-rank:], strict=True)
    ):
        raise UnwritableError(f"{op.target} whose last windows are cut off")
    starts = product(*(range(0, size * gap, gap) for size, gap in zip(window, apart, strict=True)))
    return [_strided(state.graph, node, start, steps, extents) for start in starts]


def _strided(
    graph: Graph, node: Node, start: tuple[int, ...], steps: tuple[int, ...], extents: tuple[int, ...]
) -> Node:
    """Of the last dimensions every so many elements, from `start` on."""
    for dim, (first, step, extent) in enumerate(zip(start, steps, extents, strict=True), len(node.shape) - len(start)):
        node = slice_of(graph, node, dim, first, first + (extent - 1) * step + 1, step)
    return node


def _max_pool(state: Lowering, op: Op) -> Node:
    f, taps = Terms(state.graph, result_dtype(op)), _taps(state, op, state.argument(op, 4, "dilation", 1))
    return reduce(lambda one, other: f("maximum", one, other), taps)


def _avg_pool(state: Lowering, op: Op) -> Node:
    f, taps = Terms(state.graph, result_dtype(op)), _taps(state, op, 1)
    divisor = state.argument(op, 6, "divisor_override")
    total = reduce(lambda one, other: f("add", one, other), taps)
    return f("div", total, float(divisor) if isinstance(divisor, int) else float(len(taps)))


def _adaptive_avg_pool(state: Lowering, op: Op) -> Node:
    """Means over equal shares of each dimension; to one element, over all of it."""
    node = tensor_operand(state, op)
    wanted = op.results[0].shape
    if any(whole % extent for whole, extent in zip(node.shape, wanted, strict=True)):
        raise UnwritableError(f"{op.target} into shares of different sizes")
    shape = [part for whole, extent in zip(node.shape, wanted, strict=True) for part in (extent, whole // extent)]
    shares = state.graph.reshape(node, tuple(shape))
    dims = tuple(dim for dim in range(1, len(shape), 2) if shape[dim] > 1)
    if not dims:
        return node
    return state.graph.reshape(Rows(state, shares, dims).mean(), wanted)


def _repeat(state: Lowering, op: Op) -> Node:
    """The whole tensor again and again along each dimension."""
    node, times = state.value(op.args[0]), numbers(op.args[1], op)
    shape = (1,) * (len(times) - len(node.shape)) + node.shape
    spread = state.graph.reshape(node, tuple(part for extent in shape for part in (1, extent)))
    wide = tuple(part for count, extent in zip(times, shape, strict=True) for part in (count, extent))
    return state.graph.reshape(state.graph.expand(spread, wide), op.results[0].shape)


def _repeat_interleave(state: Lowering, op: Op) -> Node:
    """Each element of one dimension several times."""
    node, times = state.value(op.args[0]), op.args[1]
    dim = state.argument(op, 2, "dim")
    if not isinstance(times, int) or not isinstance(dim, int):
        raise UnwritableError(f"{op.target} without one number of repeats and one dimension")
    return _enlarged(state.graph, node, {dim % len(node.shape): times})


def _enlarged(graph: Graph, node: Node, times: dict[int, int]) -> Node:
    """Each element so many times along some dimensions."""
    shape = tuple(part for extent in node.shape for part in (extent, 1))
    wide = tuple(part for dim, extent in enumerate(node.shape) for part in (extent, times.get(dim, 1)))
    merged = tuple(extent * times.get(dim, 1) for dim, extent in enumerate(node.shape))
    return graph.reshape(graph.expand(graph.reshape(node, shape), wide), merged)


def _upsample(state: Lowering, op: Op) -> Node:
    """The nearest element, where every dimension grows by a whole factor."""
    node, wanted = state.value(op.args[0]), op.results[0].shape
    if any(extent % whole for whole, extent in zip(node.shape, wanted, strict=True)):
        raise UnwritableError(f"{op.target} by a factor that is not whole")
    times = {dim: extent // whole for dim, (whole, extent) in enumerate(zip(node.shape, wanted, strict=True))}
    # A factor that was given decides which element is the nearest, however many there come to be.
    given = [factor for each in op.args[2:] for factor in (each if isinstance(each, tuple) else (each,))]
    if any(factor not in (None, times[dim]) for dim, factor in enumerate(given, len(wanted) - len(given))):
        raise UnwritableError(f"{op.target} by a factor that is not whole")
    return _enlarged(state.graph, node, times)


def _pixel_shuffle(state: Lowering, op: Op) -> Node:
    """Channels become neighbours in height and width."""
    node, (factor,) = state.value(op.args[0]), numbers(op.args[1], op)
    *lead, channels, height, width = node.shape
    rank = len(lead)
    cut = state.graph.reshape(node, (*lead, channels // factor**2, factor, factor, height, width))
    order = (*range(rank + 1), rank + 3, rank + 1, rank + 4, rank + 2)
    return state.graph.reshape(permuted(state.graph, cut, order), op.results[0].shape)


def _flip(state: Lowering, op: Op) -> Node:
    node = state.value(op.args[0])
    for dim in numbers(op.args[1], op):
        node = _flipped(state.graph, node, dim % max(len(node.shape), 1))
    return node


def _flipped(graph: Graph, node: Node, dim: int) -> Node:
    return graph.view(node, lambda shape, strides: strided.flip(shape, strides, dim))


def _unfold(state: Lowering, op: Op) -> Node:
    """Windows of one dimension, their elements as a new last one."""
    node, (dim, size, step) = tensor_operand(state, op), (numbers(each, op)[0] for each in op.args[1:4])
    dim %= len(node.shape)
    return state.graph.view(node, lambda shape, strides: strided.unfold(shape, strides, dim, size, step))


def _outer(state: Lowering, op: Op) -> Node:
    column, row = (state.operand(argument, result_dtype(op)) for argument in op.args[:2])
    return multiply(state, state.graph.reshape(column, (*column.shape, 1)), row)


_REARRANGED: dict[str, Lower] = {
    **dict.fromkeys(("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"), _upsample),
    "repeat": _repeat, "repeat_interleave": _repeat_interleave, "pixel_shuffle": _pixel_shuffle, "flip": _flip,
    "unfold": _unfold,
}  # fmt: skip
WINDOWS: dict[str, Lower] = {
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d"), _max_pool),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), _avg_pool),
    **dict.fromkeys(
        ("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d"),
        _adaptive_avg_pool,
    ),
    **{name: keeping_constants(lower) for name, lower in _REARRANGED.items()},
    "outer": _outer, "ger": _outer,
}  # fmt: skip
