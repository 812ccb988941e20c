"""Sums of which one element counts: over classes, where a row's label says which is not 0."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge.compiler.index import Axis, along, axes, computed
from knowledge.compiler.nodes import Element, Value, Values, elements
from knowledge.playbook.expressions import Node


def picked(graph: Values, operand: Node, dims: tuple[int, ...]) -> Node | None:
    """The sum over one dimension of `at == label ? x : 0`: x, where the label is inside; None for anything else."""
    if not isinstance(operand, Value) or operand.kind != "map" or len(dims) != 1 or operand.body is None:
        return None
    chosen, axis = operand.body, operand.axes[dims[0]]
    if chosen.op != "select" or chosen.args[2].kind != "const" or chosen.args[2].payload != (0.0,):
        return None
    conditions = list(_conjunction(chosen.args[0]))
    labels = [(each, label) for each in conditions if (label := _label(each, axis)) is not None]
    if len(labels) != 1 or axis.extent < 2:
        return None
    (told, label), others = labels[0], conditions
    rest = [each for each in others if each is not told]
    if any(_uses(each, axis) for each in (label, chosen.args[1], *rest)):
        return None
    kept = tuple(extent for dim, extent in enumerate(operand.shape) if dim != dims[0])
    outer = iter(axes("i", kept))
    places = {each: along(next(outer)) for each in operand.axes if each != axis}

    def moved(node: Node) -> Node:
        return graph.rewritten(node, places, lambda read: read)

    inside = graph.within(computed(moved(label)), axis.extent)
    for each in rest:
        inside = graph.element("and", "bool", moved(each), inside)
    return graph.map(kept, graph.element("select", operand.dtype, inside, moved(chosen.args[1]), chosen.args[2]))


def _conjunction(node: Node) -> Iterator[Node]:
    if node.op == "and" and node.dtype == "bool":
        for each in node.args:
            yield from _conjunction(each)
    else:
        yield node


def _label(node: Node, axis: Axis) -> Node | None:
    """What a condition compares the place along the axis with."""
    if node.op != "eq" or node.args[0].dtype != "int64":
        return None
    for one, other in (node.args, node.args[::-1]):
        if isinstance(one, Element) and one.kind == "position" and one.indices[0].alone == axis:
            return other
    return None


def _uses(node: Node, axis: Axis) -> bool:
    reads = (each for each in elements(node) if isinstance(each, Element))
    return any(index.uses(axis) for each in reads for index in each.indices)
