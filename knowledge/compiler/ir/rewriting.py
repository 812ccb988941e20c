"""Elements rewritten: with what is not kept computed where it is read, over split loops, and values made anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import gcd

from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import Axis, Index, Quotient, Remainder, along
from knowledge.compiler.ir.nodes import Carried, Element, Region, Value, Values, reads, values


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
    roots, renewing = tuple(roots), _Renewing(graph, change)
    for value in values(*(root for root in roots if isinstance(root, Value))):
        if value.region is None:
            renewing.value(value)
        else:
            renewing.step(value, value.region)
    return [renewing.made.get(id(root), root) for root in roots]


@dataclass
class _Renewing:
    """What became of each value, by its identity, where it changed; and of each loop."""

    graph: Values
    change: Callable[[Value], Value]
    made: dict[int, Value] = field(default_factory=dict)
    regions: dict[int, Region] = field(default_factory=dict)

    def read(self, element: Element) -> Node:
        """A read of what its value became."""
        operand = self.made.get(id(element.value))
        return element if operand is None else self.graph.read(operand, element.indices, partial=element.partial)

    def value(self, value: Value) -> None:
        """One value after its operands."""
        graph, own = self.graph, value
        graph.origin = value.origin
        if any(id(each.value) in self.made for each in reads(*value.bodies)):
            bodies = (each for each in (value.body, *value.sums) if each is not None)
            body, *sums = (graph.rewritten(each, {}, self.read) for each in bodies)
            graph.origin = value.origin
            own = graph.value(
                value.kind, value.op, value.dtype, value.shape, body, tuple(axis.extent for axis in value.reduced),
                value.dim, tuple(sums), value.taps,
            )  # fmt: skip
        graph.origin = value.origin
        if (new := self.change(own)) is not value:
            self.made[id(value)] = new
            if id(value) in graph.results:
                graph.results.add(id(new))

    def step(self, value: Value, region: Region) -> None:
        """What a loop's steps make, after the loop."""
        if id(region) not in self.regions:
            self.regions[id(region)] = self._loop(region)
        new = self.regions[id(region)]
        own = value if new is region else self.graph.loop(new, new.made[int(value.op)])
        if (changed := self.change(own)) is not value:
            self.made[id(value)] = changed

    def _loop(self, region: Region) -> Region:
        for value in region.inner:
            self.value(value)
        touched = (*region.inner, *(each.value for each in reads(*region.around)))
        if not any(id(each) in self.made for each in touched):
            return region
        results = tuple(self.made.get(id(each), each) for each in region.made)
        carried = tuple(
            Carried(
                each.before,
                self.graph.rewritten(each.first, {}, self.read),
                self.made.get(id(each.after), each.after),
            )
            for each in region.carried
        )
        return self.graph.region(region.axis, _bound(results, carried), results, carried)


def _bound(results: tuple[Value, ...], carried: tuple[Carried, ...]) -> tuple[Value, ...]:
    """The values that a loop makes anew at every step: its results, and what needs the step before."""
    bound = {id(each.before) for each in carried}
    found = []
    for value in values(*results):
        if value in results or not bound.isdisjoint(id(each.value) for each in reads(*value.bodies)):
            bound.add(id(value))
            found.append(value)
    return tuple(found)
