"""Running totals along one dimension: sums, products, extrema and where they lie, logarithms of sums of powers."""

from __future__ import annotations

from math import prod

from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import along, axes, places
from knowledge.compiler.lower.activations import Terms
from knowledge.compiler.lower.lowering import Lower, Lowering
from knowledge.compiler.lower.moving import integer, replaced
from knowledge.compiler.lower.pointwise import result_dtype
from knowledge.compiler.lower.scattering import LOOKED_THROUGH
from knowledge.compiler.problem import Op


def _operand(state: Lowering, op: Op) -> tuple[Node, int]:
    """What runs, with one dimension at least, and along which."""
    node = state.operand(op.args[0], result_dtype(op))
    node = node if node.shape else state.graph.reshape(node, (1,))
    return node, integer(op.args[1], op) % len(node.shape)


def _scan(name: str) -> Lower:
    def made(state: Lowering, op: Op) -> Node:
        node, dim = _operand(state, op)
        return state.graph.reshape(state.graph.scan(name, node, dim), op.results[0].shape)

    return made


def _extremum(name: str) -> Lower:
    """The extremum so far, or the first NaN from there on; and the last place that holds it."""

    def made(state: Lowering, op: Op) -> tuple[Node, ...]:
        graph, (node, dim) = state.graph, _operand(state, op)
        best = graph.scan(name, node, dim)
        here = places(node.shape)
        x = graph.read(node, here)
        holds = graph.element("eq", "bool", x, graph.read(best, here))
        holds = graph.element("or", "bool", holds, graph.element("ne", "bool", x, x))
        place = graph.element("select", "int64", holds, graph.position(here[dim]), graph.const(0, "int64"))
        last = graph.scan("amax", graph.map(node.shape, place), dim)
        return tuple(graph.reshape(each, result.shape) for each, result in zip((best, last), op.results, strict=True))

    return made


def _logcumsumexp(state: Lowering, op: Op) -> Node:
    """m + log(sum of e^(x - m)) over all up to here, m the largest of them: each result sums for itself."""
    graph, (node, dim) = state.graph, _operand(state, op)
    shape, f = node.shape, Terms(graph, node.dtype)
    if prod(shape) * shape[dim] > LOOKED_THROUGH:
        raise UnwritableError(f"{op.target} along {shape[dim]} elements of {prod(shape)}")
    most = graph.scan("amax", node, dim)
    finite = f("lt", f("abs", most), float("inf"))
    least = f("select", finite, most, 0.0)
    here, (step,) = places(shape), axes("r", shape[dim : dim + 1])
    before = graph.within(here[dim] - along(step), shape[dim])
    gap = graph.element("sub", node.dtype, graph.read(node, replaced(here, dim, along(step))), graph.read(least, here))
    power = graph.element("exp", node.dtype, gap)
    none = graph.const(0.0, node.dtype)
    total = graph.fold("sum", shape, (step.extent,), graph.element("select", node.dtype, before, power, none))
    return graph.reshape(f("add", f("log", total), least), op.results[0].shape)


SCANNING: dict[str, Lower] = {
    "cumsum": _scan("sum"), "cumprod": _scan("prod"), "cummax": _extremum("amax"), "cummin": _extremum("amin"),
    "logcumsumexp": _logcumsumexp,
}  # fmt: skip
