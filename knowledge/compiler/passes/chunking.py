"""Linear recurrences in chunks: h = a h + b at each element, where neither a nor b needs the step before.

Over a chunk that is h = p h' + q of the state h' that it begins with. All chunks make their p and q side by side, step
by step; the states that they begin with follow from one another, a step a chunk; then every step has its h. What else a
loop makes of h is made of all steps at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Axis, Index, along, axes, number, places
from knowledge.compiler.ir.nodes import Carried, Element, Region, Value, Values, reads
from knowledge.compiler.ir.rewriting import Inliner, renewed
from knowledge.compiler.lower.lowering import Lowered


class Affine(NamedTuple):
    """slope * (the step before) + rest; None where that is 0."""

    slope: Node | None
    rest: Node | None


def chunked(lowered: Lowered, length: int) -> Lowered:
    """The values with every linear loop in chunks of `length` steps; the same ones where none is linear."""
    made = _Chunks(lowered.graph, length)
    roots = renewed(lowered.graph, (node for _, node in lowered.outputs), made.of)
    outputs = tuple((tensor, root) for (tensor, _), root in zip(lowered.outputs, roots, strict=True))
    return Lowered(lowered.graph, outputs, lowered.operations)


@dataclass
class _Chunks:
    graph: Values
    length: int
    regions: dict[int, _Linear | None] = field(default_factory=dict)
    held: list[Region] = field(default_factory=list)
    """So that no other region has the identity of one in `regions`."""

    def of(self, value: Value) -> Value:
        """The value, or of a linear loop's what has all of its steps."""
        if value.region is None:
            return value
        region = value.region
        if id(region) not in self.regions:
            self.held.append(region)
            linear = _Linear(self.graph, region, self.length)
            self.regions[id(region)] = linear if linear.found() else None
        found = self.regions[id(region)]
        return value if found is None else found.at_all_steps(region.made[int(value.op)])


class _Linear:
    """A region whose carried values are linear in what they were, each for itself."""

    def __init__(self, graph: Values, region: Region, length: int) -> None:
        self.graph, self.region, self.length = graph, region, length
        self.inner = {id(each) for each in region.inner}
        self.carried = {id(each.before): each for each in region.carried}
        self.steps: dict[int, Value] = {}

    def found(self) -> bool:
        """Whether it is, and worth a chunk; all states are made at once."""
        count, graph = self.region.axis.extent, self.graph
        kinds = {each.kind for each in self.region.inner}
        if (
            count < 2 * self.length
            or not kinds <= {"map", "reduce", "scan"}
            or any(each.after.dtype not in ("float32", "float64") for each in self.region.carried)
        ):
            return False
        inliner = Inliner(graph, lambda value: id(value) not in self.inner or value.kind != "map")
        parts = [(each, self._affine(inliner.body(each.after), each)) for each in self.region.carried
                 if each.after.kind == "map"]  # fmt: skip
        if len(parts) < len(self.region.carried) or any(part is None for _, part in parts):
            return False
        for place, (each, part) in enumerate(parts):
            assert part is not None
            self.steps[id(each.after)] = self._state(each, part, place)
        return True

    def _affine(self, node: Node, carried: Carried) -> Affine | None:
        """The element as one of the step before at the same place; None where it is another function of a state."""
        if not self._waits(node):
            return Affine(None, node)
        f = self.graph.element
        if node.kind == "read":
            assert isinstance(node, Element)
            same = node.value is carried.before and node.indices == places(carried.before.shape)
            return Affine(self.graph.const(1.0, node.dtype), None) if same else None
        dtype, known = node.dtype, [self._affine(arg, carried) for arg in node.args]
        if any(each is None for each in known) or node.op not in ("add", "sub", "neg", "mul", "div", "select"):
            return None
        of = [each for each in known if each is not None]
        if node.op == "neg":
            return Affine(*(each if each is None else f("neg", dtype, each) for each in of[0]))
        if node.op in ("mul", "div"):
            moved = 0 if of[0].slope is not None else 1
            if of[1 - moved].slope is not None or (node.op == "div" and moved):
                return None
            return Affine(
                *(each if each is None else f(node.op, dtype, each, node.args[1 - moved]) for each in of[moved])
            )
        if node.op == "select":
            if of[0].slope is not None or self._waits(node.args[0]):
                return None
            none = self.graph.const(0.0, dtype)
            pairs = zip(of[1], of[2], strict=True)
            return Affine(*(f("select", dtype, node.args[0], a or none, b or none) for a, b in pairs))
        return Affine(*(self._joined(node.op, dtype, a, b) for a, b in zip(*of, strict=True)))

    def _joined(self, op: str, dtype: str, one: Node | None, other: Node | None) -> Node | None:
        if one is None or other is None:
            negative = other is not None and op == "sub"
            return self.graph.element("neg", dtype, other) if negative else one or other  # type: ignore[arg-type]
        return self.graph.element(op, dtype, one, other)

    def _waits(self, node: Node) -> bool:
        """Whether an element needs what a step made, or the step before it."""
        own = self.inner | self.carried.keys()
        return any(id(each.value) in own for each in reads(node))

    def _state(self, carried: Carried, part: Affine, place: int) -> Value:
        """A carried value at all steps."""
        graph, axis, shape, dtype = self.graph, self.region.axis, carried.after.shape, carried.after.dtype
        chunks = -(-axis.extent // self.length)
        within, across = (
            Axis(f"{axis.name}{kind}{place}", count) for kind, count in (("w", self.length), ("a", chunks))
        )
        one, none = graph.const(1.0, dtype), graph.const(0.0, dtype)
        now = axes("i", (chunks, *shape))
        time = along(now[0]) * self.length + along(within)
        moved = dict(zip(axes("i", shape), map(along, now[1:]), strict=True)) | {axis: time}

        def placed(node: Node | None, beyond: Node) -> Node:
            here = none if node is None else graph.rewritten(node, moved, lambda read: read)
            return graph.element("select", dtype, graph.within(time, axis.extent), here, beyond)

        graph.origin = carried.after.origin
        slope, rest = placed(part.slope, one), placed(part.rest, none)
        p, q = (graph.value("source", f"{within.name} {name}", dtype, (chunks, *shape)) for name in "pq")
        f = graph.element
        next_p = graph.map(p.shape, f("mul", dtype, slope, self._own(p)))
        next_q = graph.map(q.shape, f("add", dtype, f("mul", dtype, slope, self._own(q)), rest))
        inside = graph.region(within, (next_p, next_q), (next_p, next_q),
                              (Carried(p, one, next_p), Carried(q, none, next_q)))  # fmt: skip
        ends, alone = graph.loop(inside, next_p), graph.loop(inside, next_q)

        begin = graph.value("source", f"{across.name} h", dtype, shape)
        at = (number(self.length - 1), along(across), *places(shape))
        end = f("add", dtype, f("mul", dtype, graph.read(ends, at), self._own(begin)), graph.read(alone, at))
        after = graph.map(shape, end)
        between = graph.loop(graph.region(across, (after,), (after,), (Carried(begin, carried.first, after),)), after)

        step, *here = places((axis.extent, *shape))
        chunk, at = step // self.length, (step % self.length, step // self.length, *here)
        begun = self._earlier(between, carried, chunk, tuple(here))
        return graph.map((axis.extent, *shape), f("add", dtype, f("mul", dtype, graph.read(ends, at), begun),
                                                  graph.read(alone, at)))  # fmt: skip

    def _own(self, value: Value) -> Node:
        return self.graph.read(value, places(value.shape))

    def _earlier(self, made: Value, carried: Carried, step: Index, here: tuple[Index, ...]) -> Node:
        """What was carried into a step; `made` are the states after each."""
        graph = self.graph
        first = graph.rewritten(
            carried.first, dict(zip(axes("i", carried.after.shape), here, strict=True)), lambda read: read
        )
        old = graph.read(made, (step - 1, *here), partial=True)
        return graph.element("select", made.dtype, graph.within(step - 1, made.shape[0]), old, first)

    def at_all_steps(self, value: Value) -> Value:
        """One of the region's values at all steps, the first dimension."""
        if id(value) in self.steps or id(value) not in self.inner:
            return self.steps[id(value)]
        graph, axis, shape = self.graph, self.region.axis, (self.region.axis.extent, *value.shape)
        assert value.body is not None
        now = axes("i", shape)
        moved = dict(zip(value.axes, map(along, now[1:]), strict=True)) | {axis: along(now[0])}

        def read(each: Element) -> Node:
            if id(each.value) in self.inner:
                return graph.read(self.at_all_steps(each.value), (along(now[0]), *each.indices), partial=each.partial)  # type: ignore[arg-type]
            carried = self.carried.get(id(each.value))
            if carried is None:
                return each
            old = self._earlier(self.steps[id(carried.after)], carried, along(now[0]), each.indices)
            if not each.partial:
                return old
            for index, extent in zip(each.indices, carried.before.shape, strict=True):
                old = graph.element("select", old.dtype, graph.within(index, extent), old, graph.const(0, old.dtype))
            return old

        body = graph.rewritten(value.body, moved, read)
        graph.origin = value.origin
        over = tuple(each.extent for each in value.reduced)
        dim = value.dim + (value.kind == "scan")
        made = graph.value(value.kind, value.op, value.dtype, shape, body, over, dim, taps=value.taps)
        self.steps[id(value)] = made
        return made
