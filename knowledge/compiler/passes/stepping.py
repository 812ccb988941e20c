"""Loops over time as kernels, one after the other at every step: what they read and store, and where it lies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import along, axes
from knowledge.compiler.ir.nodes import Carried, Element, Region, Value, Values, reads
from knowledge.compiler.ir.rewriting import Inliner
from knowledge.compiler.ir.strides import packed_strides
from knowledge.compiler.passes.kernel import Kernel, Store
from knowledge.compiler.problem import Tensor

KEPT = 2
"""Steps in memory of what only the next step needs, and of which only the last is read."""


def in_loop(kernel: Kernel) -> bool:
    """Whether a kernel is one of those that a loop repeats."""
    return kernel.stepped is not None and kernel.stepped.name.startswith("step")


def asked_of(value: Value, evaluations: float) -> Iterator[tuple[int, float]]:
    """Each value that one reads, by identity, and how often."""
    region = value.region
    if region is None:
        yield from ((id(each.value), evaluations) for each in reads(*value.bodies))
    elif value.op == "0":
        bodies = [(inner.evaluations, inner.bodies) for inner in region.inner]
        firsts = [(each.before.numel, (each.first,)) for each in region.carried]
        for evaluated, roots in (*bodies, *firsts):
            times = float(evaluated * region.axis.extent)
            yield from ((id(each.value), times) for each in reads(*roots))


@dataclass
class Steps:
    """A region's values in memory: of those in `whole` all steps, of the others the last KEPT."""

    graph: Values
    region: Region
    whole: set[str]

    @property
    def results(self) -> list[Value]:
        """What is in memory, each with all steps as its first dimension."""
        return [self.graph.loop(self.region, each) for each in self.region.made]

    def tensor(self, value: Value, number: int) -> Tensor:
        """Where one lies that is not returned."""
        steps = value.shape[0] if value.op in self.whole else min(KEPT, value.shape[0])
        shape = (steps, *value.shape[1:])
        return Tensor(name=f"between {number}", shape=shape, strides=packed_strides(shape), dtype=value.dtype)

    def stored(self, store: Store, body: Node) -> Store:
        """A store, at its step where it is of the region's own results."""
        if len(store.indices) == len(store.tensor.shape):
            return Store(store.tensor, store.indices, body)
        step = along(self.region.axis)
        kept = store.tensor.shape[0]
        return Store(store.tensor, (step if kept == self.region.axis.extent else step % kept, *store.indices), body)

    def reading(self, inliner: Inliner) -> Callable[[Element], Node]:
        """What reads become: of this step's own values at this step, of those carried at the one before."""
        made = {id(self.region.made[int(value.op)]): value for value in self.results}
        carried = {id(each.before): each for each in self.region.carried}
        step = along(self.region.axis)

        def read(node: Element) -> Node:
            if id(node.value) in made:
                return self.graph.read(made[id(node.value)], (step, *node.indices), partial=node.partial)
            each = carried.get(id(node.value))
            return node if each is None else self._before(node, each, made[id(each.after)], inliner)

        return read

    def _before(self, node: Element, each: Carried, after: Value, inliner: Inliner) -> Node:
        graph, axis = self.graph, self.region.axis
        earlier = along(axis) - 1
        old = graph.read(after, (earlier, *node.indices), partial=True)
        first = inliner.inlined(each.first)
        if first.kind == "const" and not first.payload[0]:
            return old
        places = dict(zip(axes("i", each.before.shape), node.indices, strict=True))
        begun = graph.rewritten(first, places, lambda inner: inner)
        if node.partial:
            inside: Node = graph.const(True, "bool")
            for index, extent in zip(node.indices, each.before.shape, strict=True):
                inside = graph.element("and", "bool", graph.within(index, extent), inside)
            begun = graph.element("select", begun.dtype, inside, begun, graph.const(0, begun.dtype))
        return graph.element("select", old.dtype, graph.within(earlier, axis.extent), old, begun)
