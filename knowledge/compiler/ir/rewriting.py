"""Elements rewritten: with what is not kept computed where it is read, over split loops, and values made anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import gcd

from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import Axis, Index, Quotient, Remainder, along
from knowledge.compiler.ir.nodes import Element, Value, Values, reads, values


@dataclass(frozen=True)
class Loops:
    """Groups of loops, and the indices and elements over them. A loop may be in several groups."""

    groups: tuple[tuple[Axis, ...], ...]
    indices: tuple[Index, ...]
    nodes: tuple[Node, ...]

    def split(self, graph: Values, addresses: Callable[[Loops], Iterable[Index]]) -> Loops:
        """With all loops split that are under a quotient or a remainder of `addresses`, as long as that helps.

        Raises `UnwritableError` where one is cut into pieces of different sizes.
        """
        made = self
        while cut := next(cuts(addresses(made)), None):
            made = made._halved(graph, *cut)
        return made

    def _halved(self, graph: Values, axis: Axis, by: int) -> Loops:
        """With one loop as two, the inner one of `by` steps."""
        if axis.extent % by:
            raise UnwritableError("a reshape cuts a dimension unevenly")
        known = {each.name for group in self.groups for each in group}
        name = axis.name + "p" * sum(each.startswith(axis.name) for each in known)
        outer, inner = Axis(axis.name, axis.extent // by), Axis(name, by)
        places = {axis: along(outer) * by + along(inner)}
        return Loops(
            tuple(
                tuple(new for old in group for new in ((outer, inner) if old == axis else (old,)))
                for group in self.groups
            ),
            tuple(index.at(places, lambda data: data) for index in self.indices),
            tuple(graph.rewritten(node, places, lambda read: read) for node in self.nodes),
        )


def cuts(addresses: Iterable[Index]) -> Iterator[tuple[Axis, int]]:
    """Loops under a quotient or a remainder, each with what it has to be split by."""
    for index in addresses:
        for atom in index.atoms():
            if not isinstance(atom, Quotient | Remainder):
                continue
            for axis, times in atom.of.terms:
                by = atom.by // gcd(atom.by, times)
                if isinstance(axis, Axis) and 1 < by < axis.extent:
                    yield axis, by


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


def renewed(graph: Values, roots: Iterable[Node], change: Callable[[Value], Value]) -> list[Node]:
    """The roots with every value as `change` makes it of operands that have been changed before it."""
    roots, made = tuple(roots), dict[int, Value]()

    def read(element: Element) -> Node:
        operand = made.get(id(element.value))
        return element if operand is None else graph.read(operand, element.indices, partial=element.partial)

    for value in values(*(root for root in roots if isinstance(root, Value))):
        graph.origin, own = value.origin, value
        if any(id(each.value) in made for each in reads(*value.bodies)):
            body, *sums = (graph.rewritten(each, {}, read) for each in (value.body, *value.sums) if each is not None)
            graph.origin = value.origin
            own = graph.value(
                value.kind, value.op, value.dtype, value.shape, body, tuple(axis.extent for axis in value.reduced),
                value.dim, tuple(sums), value.taps,
            )  # fmt: skip
        graph.origin = value.origin
        if (new := change(own)) is not value:
            made[id(value)] = new
    return [made.get(id(root), root) for root in roots]
