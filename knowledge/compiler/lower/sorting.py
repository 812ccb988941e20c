"""Sorts and the first of them: the places in the order, and the elements that lie there."""

from __future__ import annotations

import math

from knowledge.compiler.ir.dtypes import is_float
from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import computed, number, places
from knowledge.compiler.ir.nodes import Values
from knowledge.compiler.lower.activations import Terms
from knowledge.compiler.lower.lowering import Lower, Lowering
from knowledge.compiler.lower.moving import integer, replaced
from knowledge.compiler.problem import Argument, Op


def _operand(state: Lowering, op: Op, dim: Argument) -> tuple[Node, int]:
    """What is sorted, with at least one dimension, and along which."""
    node = state.value(op.args[0])
    if node.uniform:
        raise UnwritableError(f"{op.target} of a constant")
    node = node if node.shape else state.graph.reshape(node, (1,))
    return node, integer(dim, op) % len(node.shape)


def _found(graph: Values, node: Node, dim: int, order: Node) -> Node:
    """The elements at some places."""
    here = places(order.shape)
    place = computed(graph.read(order, here))
    return graph.map(order.shape, graph.read(node, replaced(here, dim, place), partial=True))


def _shaped(graph: Values, op: Op, *nodes: Node) -> tuple[Node, ...]:
    """As traced: without the dimension that a number has been given."""
    return tuple(graph.reshape(node, result.shape) for node, result in zip(nodes, op.results, strict=True))


def _sorted(with_values: bool) -> Lower:
    """self, dim, descending; a `stable` one names all of them."""

    def made(state: Lowering, op: Op) -> tuple[Node, ...]:
        graph = state.graph
        node, dim = _operand(state, op, state.argument(op, 1, "dim"))
        descending = state.argument(op, 2, "descending") is True
        order = graph.sort(node, dim, node.shape[dim], descending)
        return _shaped(graph, op, *((_found(graph, node, dim, order),) * with_values), order)

    return made


def _topk(state: Lowering, op: Op) -> tuple[Node, ...]:
    """In order, whether that is asked for or not."""
    graph = state.graph
    node, dim = _operand(state, op, state.argument(op, 2, "dim"))
    order = graph.sort(node, dim, integer(op.args[1], op), state.argument(op, 3, "largest") is True)
    return _shaped(graph, op, _found(graph, node, dim, order), order)


def _msort(state: Lowering, op: Op) -> Node:
    """Along the first dimension."""
    graph = state.graph
    node, dim = _operand(state, op, 0)
    made = _found(graph, node, dim, graph.sort(node, dim, node.shape[dim], descending=False))
    return graph.reshape(made, op.results[0].shape)


def _kthvalue(state: Lowering, op: Op) -> tuple[Node, ...]:
    """The last of the k smallest."""
    graph, k = state.graph, integer(op.args[1], op)
    node, dim = _operand(state, op, state.argument(op, 2, "dim"))
    order = graph.sort(node, dim, k, descending=False)
    one = (*order.shape[:dim], 1, *order.shape[dim + 1 :])
    last = graph.map(one, graph.read(order, replaced(places(one), dim, number(k - 1))))
    return _shaped(graph, op, _found(graph, node, dim, last), last)


def _median(skips_nan: bool) -> Lower:
    """The lower of the two in the middle; of a row with NaN that, or where they are skipped, the middle of the others.

    Of everything, or with a dimension of its rows, and where each lies.
    """

    def made(state: Lowering, op: Op) -> tuple[Node, ...] | Node:
        graph, whole = state.graph, len(op.args) < 2
        if whole and isinstance(given := state.value(op.args[0]), Node) and not given.uniform:
            node, dim = graph.reshape(given, (math.prod(given.shape),)), 0
        else:
            node, dim = _operand(state, op, state.argument(op, 1, "dim"))
        extent = node.shape[dim]
        one = (*node.shape[:dim], 1, *node.shape[dim + 1 :])
        here, f = places(one), Terms(graph, "int64")
        place = number((extent - 1) // 2)
        if is_float(node.dtype):
            numbers = graph.reduce("sum", "int64", graph.compute("eq", "bool", node, node), (dim,), keepdim=True)
            if skips_nan:
                place = (computed(graph.read(f("maximum", numbers, 1), here)) - 1) // 2
            else:
                found = f("select", f("lt", numbers, extent), numbers, (extent - 1) // 2)
                place = computed(graph.read(found, here))
        order = graph.sort(node, dim, extent, descending=False)
        at = graph.map(one, graph.read(order, replaced(here, dim, place), partial=True))
        value = _found(graph, node, dim, at)
        return graph.reshape(value, op.results[0].shape) if whole else _shaped(graph, op, value, at)

    return made


SORTING: dict[str, Lower] = {
    "sort": _sorted(True), "argsort": _sorted(False), "topk": _topk, "kthvalue": _kthvalue,
    "median": _median(skips_nan=False), "nanmedian": _median(skips_nan=True), "msort": _msort,
}  # fmt: skip
