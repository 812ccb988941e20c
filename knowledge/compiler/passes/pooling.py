"""A pool in the kernel of what it pools: each thread makes a whole window, so that only its maximum goes to memory.

Windows must not overlap, or sums would be made twice; and what is pooled must be sums of few elements: up to 32
products take less time than a result's way to memory and back (8 bytes at an H200's 4.3e12 a second, products of loops
at 2e13). Longer sums are tensor cores' work, which keep a kernel of their own. So do those of a transposed convolution
with a stride, whose taps differ from place to place: a window of 8 such sums took 34 ms on an H100 where both kernels
take 2.5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import reduce
from itertools import product
from math import prod

from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Axis, Index
from knowledge.compiler.ir.index import number as fixed
from knowledge.compiler.ir.nodes import Element, Value, Values, reads
from knowledge.compiler.passes.fusion import Fused, allocated
from knowledge.compiler.passes.kernel import Kernel, Store

MOST_PRODUCTS, LARGEST_WINDOW = 32, 9
JOINED = {"amax": "maximum", "amin": "minimum"}


def pooled(fused: Fused, graph: Values, returned: Collection[str]) -> Fused:
    """The kernels, each pool that may joined to the one before it. `returned` are the outputs, by name."""
    found: list[Kernel] = []
    for number, kernel in enumerate(fused.kernels):
        later = {name for each in fused.kernels[number + 1 :] for name in _read(each)}
        alone = bool(found) and _only_tensor(found[-1]) not in {"", *later, *returned}
        joined = _joined(found[-1], kernel, graph) if alone else None
        found[-1:] = [joined] if joined else [*found[-1:], kernel]
    return allocated(tuple(found), returned) if len(found) < len(fused.kernels) else fused


def _read(kernel: Kernel) -> set[str]:
    return {kernel.memory[id(read.value)].name for read in reads(*kernel.bodies)}


def _only_tensor(kernel: Kernel) -> str:
    """The name of the only tensor that a kernel of short sums stores; else ""."""
    sums = all(value.kind == "reduce" and value.op == "sum" and value.body for _, value in kernel.totals)
    short = kernel.totals and sums and prod(axis.extent for axis in kernel.reduced) <= MOST_PRODUCTS
    plain = len(kernel.stores) == 1 and not kernel.stepped and all(map(_of_axes, kernel.totals))
    return kernel.stores[0].tensor.name if short and plain else ""


def _of_axes(total: tuple[str, Value]) -> bool:
    """Whether what a sum reads lies at sums of loops, without quotients."""
    indices = (index for read in reads(*total[1].bodies) for index in read.indices)
    return all(isinstance(atom, Axis) for index in indices for atom, _ in index.terms)


def _joined(sums: Kernel, pool: Kernel, graph: Values) -> Kernel | None:
    """Both as one kernel; None where windows overlap, or the second is no pool of the first."""
    (store,), read = sums.stores, _window_of(pool, sums.stores[0])
    stored = {index.alone for index in store.indices} - {None}
    if read is None or stored != {axis for axis in sums.axes if axis.extent > 1}:
        return None
    ((name, extremum),) = pool.totals
    assert extremum.body is not None
    totals: list[tuple[str, Value]] = []
    held: list[Node] = []
    for steps in product(*(range(axis.extent) for axis in pool.reduced)):
        at = dict(zip(pool.reduced, map(fixed, steps), strict=True))
        places = _places(sums, read, at)
        names = {old: f"s{len(totals) + place}" for place, (old, _) in enumerate(sums.totals)}
        totals += [(names[old], _moved(value, places, pool, graph)) for old, value in sums.totals]
        made = graph.rewritten(store.body, places, _renamed(graph, names))
        held.append(graph.rewritten(extremum.body, at, _instead(pool, store, made)))
    joined = reduce(lambda one, other: graph.element(JOINED[extremum.op], extremum.dtype, one, other), held)

    def result(node: Element) -> Node:
        return joined if node.kind == "total" and node.op == name else node

    stores = tuple(Store(each.tensor, each.indices, graph.rewritten(each.body, {}, result)) for each in pool.stores)
    return replace(pool, reduced=sums.reduced, totals=tuple(totals), stores=stores)


def _window_of(pool: Kernel, store: Store) -> Element | None:
    """The one read of what was stored, in a pool's extremum; None where it is another kernel."""
    ops = [(value.kind, value.op) for _, value in pool.totals]
    if len(ops) != 1 or ops[0][0] != "reduce" or ops[0][1] not in JOINED or pool.stepped:
        return None
    size = prod(axis.extent for axis in pool.reduced)
    inside, outside = (
        [read for read in reads(*bodies) if pool.memory[id(read.value)] == store.tensor]
        for bodies in ([value.body for _, value in pool.totals if value.body], [each.body for each in pool.stores])
    )
    alike = len({read.indices for read in inside}) == 1 and not outside
    return inside[0] if alike and size <= LARGEST_WINDOW and _apart(inside[0], pool) else None


def _apart(read: Element, pool: Kernel) -> bool:
    """Whether each element of a window is inside, and read once."""
    assert read.value is not None
    axes = {axis for axis in (*pool.axes, *pool.reduced) if axis.extent > 1}
    pairs = zip(read.indices, read.value.shape, strict=True)
    if not all(index.within(extent) for index, extent in pairs):
        return False
    used = [atom for index in read.indices for atom, _ in index.terms]
    return len(used) == len(set(used)) and set(used) == axes and all(map(_injective, read.indices))


def _injective(index: Index) -> bool:
    """Whether no two places of its axes give the same number."""
    span = 0
    for atom, times in sorted(index.terms, key=lambda term: abs(term[1])):
        if not isinstance(atom, Axis) or abs(times) <= span:
            return False
        span += abs(times) * (atom.extent - 1)
    return True


def _places(sums: Kernel, read: Element, at: dict[Axis, Index]) -> dict[Axis, Index]:
    """The axes of the sums where the pool is at this element of its window."""
    places = {axis: fixed(0) for axis in sums.axes if axis.extent == 1}
    for stored, index in zip(sums.stores[0].indices, read.indices, strict=True):
        if stored.alone is not None:
            places[stored.alone] = index.at(at, lambda data: data)
    return places


def _moved(value: Value, places: dict[Axis, Index], pool: Kernel, graph: Values) -> Value:
    assert value.body is not None
    body = graph.rewritten(value.body, places, lambda read: read)
    return Value(value.kind, value.op, value.dtype, value.shape, origin=value.origin, axes=pool.axes,
                 reduced=value.reduced, body=body, dim=value.dim)  # fmt: skip


def _renamed(graph: Values, names: dict[str, str]) -> Callable[[Element], Node]:
    return lambda node: graph.total(names[node.op], node.dtype) if node.kind == "total" else node


def _instead(pool: Kernel, store: Store, made: Node) -> Callable[[Element], Node]:
    """What the sums' kernel would have stored, instead of a read of it."""
    return lambda node: made if node.kind == "read" and pool.memory[id(node.value)] == store.tensor else node
