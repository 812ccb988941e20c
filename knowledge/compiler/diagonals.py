"""Products with a diagonal matrix as what they are: rows or columns scaled by a vector."""

from __future__ import annotations

from knowledge.compiler.index import Index, along, axes
from knowledge.compiler.inlining import Inliner
from knowledge.compiler.nodes import Element, Values
from knowledge.playbook.expressions import Node


def on_diagonal(graph: Values, over: tuple[int, ...], body: Node) -> Index | None:
    """The one place, along what is summed, where a factor of a product is not 0; None where there are more."""
    if len(over) != 1:
        return None
    (summed,) = axes("r", over)
    for factor in body.args:
        gap = _gap(graph, factor)
        times = gap.times(summed) if gap is not None else None
        if gap is not None and times in (1, -1):
            place = along(summed) - gap * times
            if place.within(summed.extent):
                return place
    return None


def _gap(graph: Values, factor: Node) -> Index | None:
    """How far from a matrix's diagonal a factor is read; None of what is not 0 elsewhere."""
    value = factor.value if isinstance(factor, Element) else None
    if value is None or value.kind != "map":
        return None
    match Inliner(graph, lambda each: each.kind != "map").body(value):
        case Node(op="select", args=(Element(kind="within", extent=1) as inside, _, Node(kind="const", payload=(0,)))):
            places = dict(zip(value.axes, factor.indices, strict=True))  # type: ignore[attr-defined]
            return inside.indices[0].at(places, lambda data: data)
    return None
