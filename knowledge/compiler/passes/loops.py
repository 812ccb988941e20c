"""A kernel as a schedule walks it: addresses instead of indices, neighbouring loops merged where all operands allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Axis, Data, Index, Quotient, Remainder, along, linear
from knowledge.compiler.ir.nodes import ORDERS, Element, Values, elements, reads
from knowledge.compiler.passes.kernel import Kernel
from knowledge.compiler.problem import Tensor


@dataclass(frozen=True)
class Total:
    """A reduction, a scan, or a sort, by its name in the kernel."""

    name: str
    op: str
    dtype: str
    body: Node
    origin: str = ""

    @property
    def convolves(self) -> bool:
        """Whether it comes of a convolution, or of one's gradients."""
        return self.origin.startswith("aten.conv")


@dataclass(frozen=True)
class Place:
    """Where a store goes: the tensor, and its element's address in elements."""

    tensor: Tensor
    address: Index
    body: Node


@dataclass(frozen=True)
class Nest:
    """Loops over `axes`; in them loops over `reduced` for the totals, or one along `scanned`; then the stores.

    That one is a scan or a sort. All of it is done at every step of `stepped`, one after the other: what a step reads,
    those before it may have stored.
    """

    axes: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    totals: tuple[Total, ...]
    stores: tuple[Place, ...]
    memory: Mapping[int, Tensor]
    scanned: Axis | None = None
    stepped: Axis | None = None

    @property
    def sorts(self) -> bool:
        """Whether its total is a sort."""
        return any(total.op in ORDERS for total in self.totals)

    @property
    def bodies(self) -> tuple[Node, ...]:
        """Every element that it computes."""
        return (*(total.body for total in self.totals), *(store.body for store in self.stores))

    def tensor(self, read: Element) -> Tensor:
        """What a read reads."""
        return self.memory[id(read.value)]

    def address(self, read: Element) -> Index:
        """A read's place in memory, in elements; of a loop's steps the last ones alone may be there."""
        tensor = self.tensor(read)
        assert read.value is not None
        kept = zip(read.indices, tensor.shape, read.value.shape, strict=True)
        indices = (index if extent == whole else index % extent for index, extent, whole in kept)
        return linear(indices, tensor.strides)

    @staticmethod
    def guards(read: Element) -> tuple[tuple[Index, int], ...]:
        """The indices that may miss the value, each with the extent that it must be below."""
        assert read.value is not None
        pairs = zip(read.indices, read.value.shape, strict=True)
        return tuple((index, extent) for index, extent in pairs if not index.within(extent))

    def varying(self, axis: Axis) -> frozenset[int]:
        """The elements, by identity, that differ along an axis: totals do along those that are not reduced."""
        found: set[int] = set()
        for node in elements(*self.bodies):
            if isinstance(node, Element):
                own = node.kind == "total" and axis in self.axes
                moved = any(index.uses(axis) or _data_in(index, found) for index in node.indices)
            else:
                own, moved = False, any(id(arg) in found for arg in node.args)
            if own or moved:
                found.add(id(node))
        return frozenset(found)

    def rewritten(self, graph: Values, places: Mapping[Axis, Index], **changes: object) -> Nest:
        """With axes replaced in all bodies and addresses."""

        def body(node: Node) -> Node:
            return graph.rewritten(node, places, lambda read: read)

        totals = tuple(replace(total, body=body(total.body)) for total in self.totals)
        stores = tuple(
            Place(store.tensor, store.address.at(places, lambda data: data), body(store.body)) for store in self.stores
        )
        return replace(self, totals=totals, stores=stores, **changes)  # type: ignore[arg-type]


def _data_in(index: Index, nodes: set[int]) -> bool:
    return any(isinstance(atom, Data) and id(atom.value) in nodes for atom in index.atoms())


def nest_of(kernel: Kernel, graph: Values) -> Nest:
    """A kernel's loops, as few as its operands allow."""
    totals = tuple(
        Total(name, value.op, value.dtype, value.body, value.origin) for name, value in kernel.totals if value.body
    )
    stores = tuple(Place(each.tensor, linear(each.indices, each.tensor.strides), each.body) for each in kernel.stores)
    scanned = kernel.axes[kernel.totals[0][1].dim] if kernel.scans else None
    nest = Nest(kernel.axes, kernel.reduced, totals, stores, kernel.memory, scanned, kernel.stepped)
    for kind in ("axes", "reduced"):
        nest = _merged(nest, graph, kind)
    return nest


def _merged(nest: Nest, graph: Values, kind: str) -> Nest:
    """Neighbours merged, the innermost first."""
    position = len(getattr(nest, kind)) - 1
    while position > 0:
        loops: tuple[Axis, ...] = getattr(nest, kind)
        outer, inner = loops[position - 1], loops[position]
        whole = Axis(outer.name, outer.extent * inner.extent)
        if nest.scanned not in (outer, inner) and outer.extent and inner.extent:
            place = along(whole)
            places = {outer: place // inner.extent, inner: place % inner.extent}
            kept = (*loops[: position - 1], whole, *loops[position + 1 :])
            made = nest.rewritten(graph, places, **{kind: kept})
            if all(_plain(index, whole) for index in indices_of(made)):
                nest = made
        position -= 1
    return nest


def indices_of(nest: Nest) -> Iterator[Index]:
    """Every index that a kernel computes."""
    yield from (store.address for store in nest.stores)
    for node in elements(*nest.bodies):
        if isinstance(node, Element):
            if node.kind == "read":
                yield nest.address(node)
                yield from (index for index, _ in nest.guards(node))
            else:
                yield from node.indices


def _plain(index: Index, axis: Axis) -> bool:
    return not any(isinstance(atom, Quotient | Remainder) and atom.of.uses(axis) for atom in index.atoms())


def jammed(nest: Nest, graph: Values, axis: Axis, times: int) -> Nest:
    """Several neighbours along an axis at once, so that what they share is read once: `times` divides the extent."""
    if times == 1:
        return nest
    step = Axis(axis.name, axis.extent // times)
    totals: list[Total] = []
    stores: list[Place] = []
    for number in range(times):
        places = {axis: along(step) * times + number}
        copy = nest.rewritten(graph, places)
        totals += (replace(total, name=f"{total.name}_{number}") for total in copy.totals)
        rename = _renaming(graph, number)
        stores += (replace(store, body=graph.rewritten(store.body, {}, rename)) for store in copy.stores)
    axes = tuple(step if each == axis else each for each in nest.axes)
    return replace(nest, axes=axes, totals=tuple(totals), stores=tuple(stores))


def _renaming(graph: Values, number: int) -> Callable[[Element], Node]:
    return lambda node: graph.total(f"{node.op}_{number}", node.dtype) if node.kind == "total" else node


def sharing(nest: Nest, axis: Axis) -> bool:
    """Whether some read is the same along an axis and another is not."""
    used = [nest.address(read).uses(axis) for read in reads(*(total.body for total in nest.totals))]
    return len(set(used)) == 2


def count(axes: tuple[Axis, ...]) -> int:
    """Steps of all loops together."""
    return prod(axis.extent for axis in axes)
