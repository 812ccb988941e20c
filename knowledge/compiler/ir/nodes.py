"""The IR: values, each defined element by element over the axes of a loop nest, and the elements that define them.

| value | an element of it is |
|---|---|
| source | an argument's own |
| map | its body at the axes i0, i1, ... |
| reduce | the sum, product, maximum, ... of its body over the axes r0, r1, ..., or where its maximum is |
| scan | the same over all of its body up to there, along one of its axes |
| sort | the place r0 of the element of its body that comes there in the order, along one of its axes; NaN is largest |
| steps | its body, at one step i1 after the other: of its states i0, over the sums of its `sums` over r0, r1, ... |
| loop | at step i0 that of one of its region's values, which is made of what the region carried there |

| element | holds |
|---|---|
| read | another value's element at one index a dimension; 0 where a `partial` one misses the value |
| position | an index, as a number |
| within | whether an index is 0 to some extent - 1 |
| total | a kernel's own reduction or scan (`passes/fusion.py`); in the body of steps, one of its sums |
| before | of steps, their own element one step earlier: one index a dimension but i1; 0 before the first step |
| compute, const, scalar | as in `ir/expressions.py` |

So views, broadcasts, padding, windows, flips, gathers and concatenations are no nodes: they are what indices say. A
contraction (product of matrices, convolution) is a sum of products of two reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

from knowledge.compiler.ir import dtypes
from knowledge.compiler.ir.expressions import Graph, Node, UnwritableError, ordered
from knowledge.compiler.ir.index import Axis, Data, Index, along, axes, linear, number, unravelled
from knowledge.compiler.ir.strides import broadcast_shape, packed_strides, resolve
from knowledge.compiler.problem import Tensor

PLACES = ("argmax", "argmin")
REDUCTIONS = ("sum", "prod", "amax", "amin", "any", "all", *PLACES)
SCANS = ("sum", "prod", "amax", "amin")
ORDERS = ("ascending", "descending")
RANGES: dict[str, tuple[int, int]] = {"bool": (0, 1), "uint8": (0, 255)} | {
    f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)
}


# No axis is longer; positions beyond it need 64 bits.
FAR = 2**31 - 1


def neutral(op: str, dtype: str) -> float | int | bool:
    """The number that changes no sum, product, extremum, ... of its type."""
    if op in ("sum", "prod"):
        return int(op == "prod") if not dtypes.is_float(dtype) else float(op == "prod")
    if op in ("any", "all"):
        return op == "all"
    if dtypes.is_float(dtype):
        return float("-inf") if op == "amax" else float("inf")
    low, high = RANGES[dtype]
    return low if op == "amax" else high


@dataclass(frozen=True, eq=False)
class Value(Node):
    """A tensor that is defined element by element. Of a scan or a sort, `dim` is the dimension that it runs along.

    A reduction over the `taps` of a pool's window says so.

    Of steps, the shape is the states, the steps and the rest; `sums` are what is summed over `reduced` at every step,
    in the body the totals s0, s1, ...
    """

    axes: tuple[Axis, ...] = ()
    reduced: tuple[Axis, ...] = ()
    body: Node | None = None
    dim: int = 0
    sums: tuple[Node, ...] = ()
    taps: bool = False
    region: Region | None = None

    @property
    def bodies(self) -> tuple[Node, ...]:
        """Every element that defines it; of a loop, an element of each value around it that it reads."""
        if self.region is not None:
            return self.region.around
        return (*self.sums, self.body) if self.body is not None else ()

    @property
    def numel(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def evaluations(self) -> int:
        """How often its body is evaluated."""
        loops = (axis for dim, axis in enumerate(self.axes) if self.kind != "sort" or dim != self.dim)
        return prod(axis.extent for axis in (*loops, *self.reduced))

    @property
    def contracts(self) -> bool:
        """Whether it is a sum of products of two reads."""
        products = self.kind == "reduce" and self.op == "sum" and self.body is not None and self.body.op == "mul"
        return products and all(arg.kind == "read" for arg in self.body.args)  # type: ignore[union-attr]


@dataclass(frozen=True, eq=False)
class Carried:
    """In a region `before` stands for what `after` was a step earlier; an element of `first` in the first step."""

    before: Value
    first: Node
    after: Value


@dataclass(frozen=True, eq=False)
class Region:
    """What a loop does at every step of `axis`, which its values' bodies may use: `inner`, in their order.

    `made` are those that are carried or read around the loop, `around` elements of the values that it reads.
    """

    axis: Axis
    inner: tuple[Value, ...]
    made: tuple[Value, ...]
    carried: tuple[Carried, ...]
    around: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Element(Node):
    """A read (`value`, one index a dimension), a position (one index), or within (one index, `extent`)."""

    value: Value | None = None
    indices: tuple[Index, ...] = ()
    extent: int = 0
    partial: bool = False


def children(node: Node) -> Iterator[Node]:
    """The elements that an element is made of, those that its indices are computed from too."""
    yield from node.args
    for index in node.indices if isinstance(node, Element) else ():
        for atom in index.atoms():
            if isinstance(atom, Data):
                yield atom.value


def elements(*roots: Node) -> Iterator[Node]:
    """Every element under `roots` once, operands before their users."""
    return ordered(roots, children)


def reads(*roots: Node) -> Iterator[Element]:
    """Every read under some elements."""
    return (node for node in elements(*roots) if isinstance(node, Element) and node.kind == "read")


def values(*roots: Value) -> Iterator[Value]:
    """Every value under `roots` once, those that are read before those that read them."""
    return ordered(roots, lambda value: (each.value for each in reads(*value.bodies) if each.value is not None))


def _only_misses(inside: Node, read: Element) -> bool:
    """Whether a condition fails only where a read misses its value, and is 0."""
    if inside.op == "and":
        return all(_only_misses(each, read) for each in inside.args)
    pairs = zip(read.indices, read.value.shape if read.value else (), strict=True)
    return isinstance(inside, Element) and inside.kind == "within" and (inside.indices[0], inside.extent) in pairs


@dataclass
class Values(Graph):
    """Builds values and elements, the same one for the same definition.

    `results` are the operations' results by identity: torch rounds those to their type, and nothing on the way there.
    """

    results: set[int] = field(default_factory=set)

    def load(self, tensor: Tensor) -> Value:
        """An argument."""
        return self.value("source", tensor.name, tensor.dtype, tensor.shape)

    def map(self, shape: tuple[int, ...], body: Node) -> Value:
        """The body at every place of a shape, whose axes are `axes("i", shape)`."""
        return self.value("map", "", body.dtype, shape, body)

    def fold(self, op: str, shape: tuple[int, ...], over: tuple[int, ...], body: Node) -> Value:
        """The body reduced over `axes("r", over)` at every place of a shape."""
        return self.value("reduce", op, body.dtype, shape, body, over=over)

    def window(self, op: str, shape: tuple[int, ...], size: tuple[int, ...], body: Node) -> Value:
        """The same over the taps of a pool's window."""
        return self.value("reduce", op, body.dtype, shape, body, over=size, taps=True)

    def scan(self, op: str, operand: Node, dim: int) -> Value:
        """Running sums, products or extrema along one dimension."""
        body = self.read(operand, tuple(map(along, axes("i", operand.shape))))
        return self.value("scan", op, body.dtype, operand.shape, body, dim=dim)

    def sort(self, operand: Node, dim: int, count: int, descending: bool) -> Value:
        """Where the first `count` elements of an order along one dimension lie; equal ones in the order they are in."""
        shape = (*operand.shape[:dim], count, *operand.shape[dim + 1 :])
        (r,) = axes("r", operand.shape[dim : dim + 1])
        here = list(map(along, axes("i", shape)))
        here[dim] = along(r)
        body = self.read(operand, tuple(here))
        return self.value("sort", ORDERS[descending], "int64", shape, body, over=(r.extent,), dim=dim)

    def steps(self, shape: tuple[int, ...], over: tuple[int, ...], sums: tuple[Node, ...], body: Node) -> Value:
        """States that each step makes of those before it; `sums` over `axes("r", over)`."""
        return self.value("steps", "", body.dtype, shape, body, over=over, sums=sums)

    def region(
        self, axis: Axis, inner: tuple[Value, ...], made: tuple[Value, ...], carried: tuple[Carried, ...]
    ) -> Region:
        """A loop's step, with the values around it that it reads."""
        own = {id(each) for each in inner} | {id(each.before) for each in carried}
        bodies = [*(body for value in inner for body in value.bodies), *(each.first for each in carried)]
        found = {id(each.value): each.value for each in reads(*bodies) if id(each.value) not in own}
        around = tuple(self.read(value, (number(0),) * len(value.shape)) for value in found.values() if value)
        return Region(axis, inner, made, carried, around)

    def loop(self, region: Region, made: Value) -> Value:
        """What one of a region's values is at all steps, the first dimension."""
        place = region.made.index(made)
        key = ("loop", id(region), place)
        if key not in self._nodes:
            shape = (region.axis.extent, *made.shape)
            self._nodes[key] = Value("loop", str(place), made.dtype, shape, origin=made.origin, axes=axes("i", shape),
                                     region=region)  # fmt: skip
        return self._nodes[key]  # type: ignore[return-value]

    def before(self, dtype: str, indices: tuple[Index, ...]) -> Node:
        """In steps, an element of theirs one step earlier."""
        return self._element("before", dtype, indices=indices)

    def read(self, value: Node, indices: tuple[Index, ...], *, partial: bool = False) -> Node:
        """An element of a value; a number is itself everywhere."""
        if value.uniform:
            return value
        assert isinstance(value, Value), value
        partial = partial and not all(map(Index.within, indices, value.shape))
        return self._element("read", value.dtype, value=value, indices=indices, partial=partial)

    def position(self, index: Index) -> Node:
        """An index as an int64."""
        return (
            self._element("position", "int64", indices=(index,)) if index.terms else self.const(index.offset, "int64")
        )

    def within(self, index: Index, extent: int) -> Node:
        """Whether an index is 0 to extent - 1."""
        low, high = index.bounds
        if index.within(extent) or high < 0 or low >= extent:
            return self.const(index.within(extent), "bool")
        return self._element("within", "bool", indices=(index,), extent=extent)

    def total(self, name: str, dtype: str) -> Node:
        """What a kernel has reduced, by its name there."""
        return self._element("total", dtype, name)

    def element(self, op: str, dtype: str, *args: Node) -> Node:
        """A primitive on elements; a choice that is made already is not made again."""
        if op == "select":
            return self._select(dtype, *args)
        if op == "and" and dtype == "bool":
            for one, other in (args, args[::-1]):
                if one.kind == "const":
                    return other if one.payload[0] else one
        return self.make("compute", op, dtype, (), args, ())

    def _select(self, dtype: str, chosen: Node, one: Node, other: Node) -> Node:
        if chosen.kind == "const":
            return one if chosen.payload[0] else other
        if one.op == "select" and one.args[0] is chosen:
            one = one.args[1]
        if other.op == "select" and other.args[0] is chosen:
            other = other.args[2]
        none = other.kind == "const" and repr(other.payload[0]) in ("0", "0.0", "False")
        if none and isinstance(one, Element) and one.kind == "read" and _only_misses(chosen, one):
            return one
        return self.make("compute", "select", dtype, (), (chosen, one, other), ())

    def rewritten(self, root: Node, places: Mapping[Axis, Index], read: Callable[[Element], Node]) -> Node:
        """An element with its axes replaced by places; `read` says what becomes of each read, total or before."""
        made: dict[int, Node] = {}

        def placed(node: Node) -> Node:
            if isinstance(node, Element):
                indices = tuple(index.at(places, lambda data: made[id(data)]) for index in node.indices)
                if node.kind == "read":
                    moved = self.read(node.value, indices, partial=True)  # type: ignore[arg-type]
                    return read(moved) if isinstance(moved, Element) else moved
                if node.kind == "total":
                    return read(node)
                if node.kind == "before":
                    return read(self.before(node.dtype, indices))  # type: ignore[arg-type]
                if node.kind == "within":
                    return self.within(indices[0], node.extent)
                return self.position(indices[0]) if node.kind == "position" else node
            if node.kind != "compute" or not node.args:
                return node
            self.origin = node.origin
            return self.element(node.op, node.dtype, *(made[id(arg)] for arg in node.args))

        for node in elements(root):
            made[id(node)] = placed(node)
        return made[id(root)]

    def compute(self, op: str, dtype: str, *args: Node) -> Node:
        """An elementwise primitive; operands are broadcast against each other."""
        if all(arg.uniform for arg in args):
            return self.make("compute", op, dtype, (), args, ())
        shape = broadcast_shape(tuple(arg.shape for arg in args))
        return self.map(shape, self.element(op, dtype, *(self.spread(arg, shape) for arg in args)))

    def spread(self, value: Node, shape: tuple[int, ...]) -> Node:
        """The element of a value, broadcast to a shape, at its axes."""
        mine = axes("i", shape)[len(shape) - len(value.shape) :] if value.shape else ()
        indices = (number(0) if extent == 1 else along(axis) for axis, extent in zip(mine, value.shape, strict=True))
        return self.read(value, tuple(indices))

    def reduce(self, op: str, dtype: str, operand: Node, dims: tuple[int, ...], keepdim: bool) -> Node:
        """A reduction over `dims` (non-negative, sorted)."""
        if operand.uniform:
            raise UnwritableError("a reduction over a constant")
        kept, over, body = self.reduction(operand, dims)
        if op in PLACES:
            if not prod(over):
                raise UnwritableError(f"{self.origin} over no elements")
            made = self.value("reduce", op, "int64", kept, body, over)
        else:
            made = self.fold(op, kept, over, body if body.dtype == dtype else self.element("cast", dtype, body))
        return self.keeping(made, operand, dims) if keepdim else made

    def reduction(self, operand: Node, dims: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...], Node]:
        """What is left of a shape, what is reduced of it, and the element at i0, ..., r0, ..."""
        kept = tuple(extent for dim, extent in enumerate(operand.shape) if dim not in dims)
        over = tuple(operand.shape[dim] for dim in dims)
        outer, inner = iter(axes("i", kept)), iter(axes("r", over))
        indices = tuple(along(next(inner if dim in dims else outer)) for dim in range(len(operand.shape)))
        return kept, over, self.read(operand, indices)

    def keeping(self, reduced: Node, operand: Node, dims: tuple[int, ...]) -> Node:
        """A reduction's result with an extent of 1 in each reduced dimension."""
        shape = tuple(1 if dim in dims else size for dim, size in enumerate(operand.shape))
        kept = tuple(along(axis) for dim, axis in enumerate(axes("i", shape)) if dim not in dims)
        return self.map(shape, self.read(reduced, kept))

    def expand(self, node: Node, shape: tuple[int, ...]) -> Node:
        """Broadcast to `shape`."""
        if node.uniform or node.shape == shape:
            return node
        lead = len(shape) - len(node.shape)
        wide = tuple(node.shape[dim - lead] if extent == -1 else extent for dim, extent in enumerate(shape))
        if broadcast_shape((node.shape, wide)) != wide:
            raise UnwritableError(f"{node.shape}, which does not broadcast to {shape} ({self.origin})")
        return self.map(wide, self.spread(node, wide))

    def reshape(self, node: Node, shape: tuple[int, ...]) -> Node:
        """The same elements in row-major order under another shape."""
        if node.uniform or node.shape == shape:
            return node
        shape = resolve(node.shape, shape)
        if prod(shape) != prod(node.shape):
            raise UnwritableError(f"a reshape of {node.shape} to {shape} ({self.origin})")
        place = linear(map(along, axes("i", shape)), packed_strides(shape))
        return self.map(shape, self.read(node, unravelled(place, node.shape)))

    def value(
        self, kind: str, op: str, dtype: str, shape: tuple[int, ...], body: Node | None = None,
        over: tuple[int, ...] = (), dim: int = 0, sums: tuple[Node, ...] = (), taps: bool = False,
    ) -> Value:  # fmt: skip
        """The one value of this definition."""
        key = (kind, op, dtype, shape, id(body), over, dim, tuple(map(id, sums)), taps)
        if key not in self._nodes:
            self._nodes[key] = Value(
                kind, op, dtype, shape, origin=self.origin, axes=axes("i", shape), reduced=axes("r", over),  # type: ignore[arg-type]
                body=body, dim=dim, sums=sums, taps=taps,
            )  # fmt: skip
        return self._nodes[key]  # type: ignore[return-value]

    def _element(
        self, kind: str, dtype: str, op: str = "", value: Value | None = None, indices: tuple[Index, ...] = (),
        extent: int = 0, partial: bool = False,
    ) -> Element:  # fmt: skip
        key = (kind, dtype, op, id(value), indices, extent)
        if key not in self._nodes:
            self._nodes[key] = Element(
                kind, op, dtype, origin=self.origin, value=value, indices=indices, extent=extent, partial=partial,  # type: ignore[arg-type]
            )  # fmt: skip
        return self._nodes[key]  # type: ignore[return-value]
