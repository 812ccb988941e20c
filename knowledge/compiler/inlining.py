"""A value's body down to what is kept: the maps in between are computed where they are read."""

from __future__ import annotations

from collections.abc import Callable

from knowledge.compiler.index import along
from knowledge.compiler.nodes import Element, Value, Values
from knowledge.playbook.expressions import Node


class Inliner:
    """Bodies whose reads are all of values for which `kept` is true."""

    def __init__(self, graph: Values, kept: Callable[[Value], bool]) -> None:
        self.graph = graph
        self.kept = kept
        self.bodies: dict[int, Node] = {}

    def body(self, value: Value) -> Node:
        """The value's element over its own axes."""
        if id(value) not in self.bodies:
            assert value.body is not None
            self.bodies[id(value)] = self.inlined(value.body)
        return self.bodies[id(value)]

    def inlined(self, element: Node) -> Node:
        """An element, down to what is kept."""
        return self.graph.rewritten(element, {}, self.read)

    def read(self, read: Element) -> Node:
        """What a read becomes: 0 where one that may miss its value does."""
        value = read.value
        if value is None or self.kept(value):
            return read
        body, places = self.body(value), dict(zip(value.axes, read.indices, strict=True))
        if any(place != along(axis) for axis, place in places.items()):
            body = self.graph.rewritten(body, places, lambda inner: inner)
        if not read.partial:
            return body
        inside: Node = self.graph.const(True, "bool")
        for index, extent in zip(read.indices, value.shape, strict=True):
            inside = self.graph.element("and", "bool", self.graph.within(index, extent), inside)
        return self.graph.element("select", body.dtype, inside, body, self.graph.const(0, body.dtype))
