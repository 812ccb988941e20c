"""Views: no arithmetic, only other indices."""

from __future__ import annotations

from typing import cast

from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import number, places
from knowledge.compiler.ir.nodes import Values
from knowledge.compiler.lower.lowering import Lower, Lowering
from knowledge.compiler.problem import Argument, Op


def numbers(argument: Argument, op: Op) -> tuple[int, ...]:
    """A tuple of integers among the arguments."""
    items = argument if isinstance(argument, tuple) else (argument,)
    if not all(isinstance(item, int) for item in items):
        raise UnwritableError(f"{op.target} with a shape that is not known beforehand")
    return cast(tuple[int, ...], items)


def tensor_operand(state: Lowering, op: Op) -> Node:
    """The first operand in the type of the result. Raises `UnwritableError` where it is one number, without a shape."""
    node = state.operand(op.args[0], op.results[0].dtype)
    if not node.shape:
        raise UnwritableError(f"{op.target} of a number")
    return node


def _int(argument: Argument, op: Op) -> int:
    return numbers(argument, op)[0]


def permuted(graph: Values, node: Node, order: tuple[int, ...]) -> Node:
    """Dimensions in another order."""
    dims = [dim % len(node.shape) for dim in order]
    shape = tuple(node.shape[dim] for dim in dims)
    here = places(shape)
    return graph.map(shape, graph.read(node, tuple(here[dims.index(dim)] for dim in range(len(dims)))))


def swapped(graph: Values, node: Node, first: int, second: int) -> Node:
    """Two dimensions exchanged."""
    order = list(range(len(node.shape)))
    if order:
        order[first], order[second] = order[second], order[first]
    return permuted(graph, node, tuple(order))


def _to_result_shape(state: Lowering, op: Op) -> Node:
    """view, reshape, flatten, unsqueeze, squeeze: the result's shape says it all."""
    return state.graph.reshape(state.value(op.args[0]), op.results[0].shape)


def _expand(state: Lowering, op: Op) -> Node:
    return state.graph.expand(state.value(op.args[0]), op.results[0].shape)


def _permute(state: Lowering, op: Op) -> Node:
    return permuted(state.graph, state.value(op.args[0]), numbers(op.args[1], op))


def _transpose(state: Lowering, op: Op) -> Node:
    return swapped(state.graph, state.value(op.args[0]), _int(op.args[1], op), _int(op.args[2], op))


def _t(state: Lowering, op: Op) -> Node:
    node = state.value(op.args[0])
    return permuted(state.graph, node, tuple(reversed(range(len(node.shape)))))


def _swap_last(state: Lowering, op: Op) -> Node:
    return swapped(state.graph, state.value(op.args[0]), -1, -2)


def _slice(state: Lowering, op: Op) -> Node:
    node = state.value(op.args[0])
    dim = _int(state.argument(op, 1, "dim"), op) % len(node.shape)
    start, stop = state.argument(op, 2, "start"), state.argument(op, 3, "end")
    step = _int(state.argument(op, 4, "step"), op)
    low = 0 if start is None else _int(start, op)
    high = node.shape[dim] if stop is None else _int(stop, op)
    return slice_of(state.graph, node, dim, low, high, step)


def slice_of(graph: Values, node: Node, dim: int, start: int, stop: int, step: int = 1) -> Node:
    """`[start:stop:step]` of one dimension, with Python's clamping of the bounds."""
    if step == 1 and 0 <= start <= stop <= node.shape[dim]:
        extent = stop - start
    else:
        start, stop, step = slice(start, stop, step).indices(node.shape[dim])
        extent = len(range(start, stop, step))
    shape = (*node.shape[:dim], extent, *node.shape[dim + 1 :])
    here = places(shape)
    return graph.map(shape, graph.read(node, (*here[:dim], here[dim] * step + start, *here[dim + 1 :])))


def _chosen(graph: Values, node: Node, dim: int, index: int) -> Node:
    """One index of one dimension, which disappears."""
    shape = (*node.shape[:dim], *node.shape[dim + 1 :])
    here = places(shape)
    return graph.map(shape, graph.read(node, (*here[:dim], number(index % node.shape[dim]), *here[dim:])))


def _narrow(state: Lowering, op: Op) -> Node:
    node = state.value(op.args[0])
    dim, start, length = (_int(arg, op) for arg in op.args[1:4])
    dim %= len(node.shape)
    start %= node.shape[dim] or 1
    return slice_of(state.graph, node, dim, start, start + length)


def _select(state: Lowering, op: Op) -> Node:
    node = state.value(op.args[0])
    dim, index = _int(op.args[1], op) % len(node.shape), _int(op.args[2], op)
    return _chosen(state.graph, node, dim, index)


def _pieces(state: Lowering, op: Op) -> tuple[Node, ...]:
    """chunk, split, split_with_sizes: consecutive slices whose sizes the results tell."""
    node = state.value(op.args[0])
    dim = _int(state.argument(op, 2, "dim"), op) % len(node.shape)
    pieces, start = [], 0
    if sum(result.shape[dim] for result in op.results) != node.shape[dim]:
        raise UnwritableError(f"{op.target} into pieces that overlap")
    for result in op.results:
        pieces.append(slice_of(state.graph, node, dim, start, start + result.shape[dim]))
        start += result.shape[dim]
    return tuple(pieces)


def _unbind(state: Lowering, op: Op) -> tuple[Node, ...]:
    node = state.value(op.args[0])
    dim = _int(state.argument(op, 1, "dim"), op) % len(node.shape)
    return tuple(_chosen(state.graph, node, dim, place) for place in range(len(op.results)))


def _broadcast_tensors(state: Lowering, op: Op) -> tuple[Node, ...]:
    given = op.args[0] if isinstance(op.args[0], tuple) else op.args
    return tuple(
        state.graph.expand(state.value(arg), result.shape) for arg, result in zip(given, op.results, strict=True)
    )


def _glu(state: Lowering, op: Op) -> Node:
    """First half times the logistic function of the second half."""
    node, graph = tensor_operand(state, op), state.graph
    dim = _int(state.argument(op, 1, "dim"), op) % len(node.shape)
    half = node.shape[dim] // 2
    value, gate = slice_of(graph, node, dim, 0, half), slice_of(graph, node, dim, half, 2 * half)
    one = graph.const(1.0, node.dtype)
    power = graph.compute("exp", node.dtype, graph.compute("neg", node.dtype, gate))
    return graph.compute("div", node.dtype, value, graph.compute("add", node.dtype, one, power))


def keeping_constants(lower: Lower) -> Lower:
    """A view of a number is that number."""

    def guarded(state: Lowering, op: Op) -> Node | tuple[Node, ...]:
        first = op.args[0]
        node = None if isinstance(first, tuple) else state.value(first)
        if node is None or not node.uniform:
            return lower(state, op)
        return node if len(op.results) == 1 else (node,) * len(op.results)

    return guarded


_VIEWS: dict[str, Lower] = {
    **dict.fromkeys(
        ("view", "reshape", "_unsafe_view", "flatten", "unflatten", "unsqueeze", "squeeze", "view_as", "reshape_as"),
        _to_result_shape,
    ),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), _expand),
    **dict.fromkeys(("chunk", "split", "split_with_sizes", "tensor_split"), _pieces),
    "permute": _permute,
    "transpose": _transpose,
    "swapaxes": _transpose,
    "t": _t,
    "numpy_T": _t,
    "mT": _swap_last,
    "adjoint": _swap_last,
    "slice": _slice,
    "narrow": _narrow,
    "select": _select,
    "unbind": _unbind,
}
VIEWS: dict[str, Lower] = {
    **{name: keeping_constants(lower) for name, lower in _VIEWS.items()},
    "broadcast_tensors": _broadcast_tensors,
    "glu": _glu,
}
COPIES: dict[str, Lower] = {f"{name}_copy": VIEWS[name] for name in ("narrow", "permute", "unbind", "view")}
"""Copies of what views would be."""
