"""Along which axes kernels do not meet: there whoever does one place can do all of them, or all steps of a loop.

A kernel's axis and a tensor's dimension go together where the one is the index of the other. Such a set of them is
apart if each kernel has one axis in it, all of one extent, each tensor that they store one dimension, and nothing reads
or stores another place there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Axis, Index, along
from knowledge.compiler.ir.nodes import Element, Values, elements
from knowledge.compiler.passes.kernel import Kernel, Store
from knowledge.compiler.problem import Tensor

_Key = tuple[int, str] | tuple[str, int]


def separated(
    kernels: Sequence[Kernel], graph: Values, least: int, wanted: int, outer: int | None = None
) -> tuple[list[Kernel], tuple[Axis, ...]]:
    """Kernels without the axes along which they are apart, and those axes, which the bodies still use.

    Where fewer than `least` elements are left to each, `wanted` of them are made at once along the last such axis. Of
    several such axes the `outer` first ones are taken.
    """
    sets = _sets(kernels)[:outer]
    places: list[dict[Axis, Index]] = [{} for _ in kernels]
    axes: list[dict[Axis, tuple[Axis, ...]]] = [{} for _ in kernels]
    found: list[Axis] = []
    left = max(max(map(size, kernels)) // prod(each[0].extent for each in sets), 1)
    for number, mine in enumerate(sets):
        extent = mine[0].extent
        most = min(max(wanted // left, 1), extent) if left < least and mine is sets[-1] else 1
        inner = Axis("u", max(part for part in range(1, most + 1) if extent % part == 0))
        steps = Axis(f"b{number}", extent // inner.extent)
        found += [steps] if steps.extent > 1 else []
        for place, axis in enumerate(mine):
            places[place][axis] = along(steps) * inner.extent + along(inner)
            axes[place][axis] = (inner,) if inner.extent > 1 else ()
    return [_placed(*each, graph) for each in zip(kernels, places, axes, strict=True)], tuple(found)


def _placed(kernel: Kernel, places: dict[Axis, Index], axes: dict[Axis, tuple[Axis, ...]], graph: Values) -> Kernel:
    """A kernel with axes replaced."""
    kept = tuple(new for axis in kernel.axes for new in axes.get(axis, (axis,)))

    def moved(body: Node) -> Node:
        return graph.rewritten(body, places, lambda read: read)

    totals = tuple(
        (name, replace(value, body=moved(value.body),
                       dim=kept.index(kernel.axes[value.dim]) if value.kind in ("scan", "sort") else 0))
        for name, value in kernel.totals if value.body
    )  # fmt: skip
    stores = tuple(
        Store(each.tensor, tuple(index.at(places, lambda data: data) for index in each.indices), moved(each.body))
        for each in kernel.stores
    )
    return replace(kernel, axes=kept, totals=totals, stores=stores)


def size(kernel: Kernel) -> int:
    """How many elements a kernel computes in a step, those that it reduces included."""
    return prod(axis.extent for axis in (*kernel.axes, *kernel.reduced)) * max(len(kernel.totals), 1)


@dataclass
class _Together:
    """What goes together, found step by step: each key is below another one, or the first of its set."""

    above: dict[_Key, _Key] = field(default_factory=dict)

    def first(self, key: _Key) -> _Key:
        """The key that stands for a set."""
        while self.above.setdefault(key, key) != key:
            key = self.above[key]
        return key

    def join(self, one: _Key, other: _Key) -> None:
        """Two sets become one."""
        self.above[self.first(one)] = self.first(other)


def _sets(kernels: Sequence[Kernel]) -> list[tuple[Axis, ...]]:
    """Of each set of what goes together and is apart, the axis of each kernel; in the order of the first kernel's."""
    together, wrong = _Together(), set[_Key]()
    stored = {store.tensor.name: store.tensor for kernel in kernels for store in kernel.stores}
    for number, kernel in enumerate(kernels):
        free = {axis for axis in kernel.axes if not kernel.scans or axis != kernel.axes[kernel.totals[0][1].dim]}
        for name, dim, index in _places(kernel, stored):
            axis = index.alone
            if axis is not None and axis in free:
                together.join((name, dim), (number, axis.name))
            else:
                wrong.add((name, dim))
    keys = [(number, axis.name) for number, kernel in enumerate(kernels) for axis in kernel.axes]
    dims = [(name, dim) for name, tensor in stored.items() for dim in range(len(tensor.shape))]
    bad = {together.first(key) for key in wrong}
    found = []
    for axis in kernels[0].axes:
        one = together.first((0, axis.name))
        mine = [key for key in keys if together.first(key) == one]
        theirs = [name for name, dim in dims if together.first((name, dim)) == one]
        if one in bad or [number for number, _ in mine] != [*range(len(kernels))] or theirs != [*stored]:
            continue
        names = zip(kernels, mine, strict=True)
        loops = tuple(next(each for each in kernel.axes if each.name == name) for kernel, (_, name) in names)
        if axis.extent > 1 and all(each.extent == axis.extent for each in loops):
            found.append(loops)
    return found


def _places(kernel: Kernel, stored: Mapping[str, Tensor]) -> Iterator[tuple[str, int, Index]]:
    """Every index at which a kernel reads or stores one of some tensors, by its name and dimension."""
    for tensor, indices in _accesses(kernel):
        for dim, index in enumerate(indices):
            if tensor.name in stored and tensor.shape[dim] != 1:
                yield tensor.name, dim, index


def _accesses(kernel: Kernel) -> Iterator[tuple[Tensor, tuple[Index, ...]]]:
    for store in kernel.stores:
        yield store.tensor, store.indices
    for node in elements(*kernel.bodies):
        if isinstance(node, Element) and node.kind == "read":
            yield kernel.memory[id(node.value)], node.indices
