"""Values whose every read is a step along loops, as the schedules of pointwise graphs and of rows take them.

All sums of a forward have to go over one shape, some of whose dimensions they sum: the columns, the others are the
rows. Outputs have an element for each of that shape, or one a row. Without sums each output has its own shape. Loops
are split where a reshape runs over them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product
from math import prod

from harness.nouns.aten import of_kinds
from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import Atom, Axis, Index, along, axes, linear, number, unravelled
from knowledge.compiler.ir.kept import kept
from knowledge.compiler.ir.nodes import PLACES, Element, Value, Values, elements, reads, values
from knowledge.compiler.ir.rewriting import Inliner, Loops, renewed
from knowledge.compiler.ir.strides import packed_strides
from knowledge.compiler.lower.front import traced
from knowledge.compiler.lower.lowering import WITHOUT_EFFECT, Lowered, live
from knowledge.compiler.problem import Op, Problem, Tensor, base_name


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


# A window is read tap by tap, each a load and a statement.
MOST_TAPS = 128
JOINED = {"amax": "maximum", "sum": "add"}
# What may lie at strides. A forward with anything else is not looked at further.
STRIDED = of_kinds(
    "reshape", "permute", "expand", "part", "alias", "copy", "cast", "create", "rearrange", "pointwise", "reduction",
    "norm", "loss", "window", "resample", "product",
) | WITHOUT_EFFECT  # fmt: skip
# What has neither rows nor columns that lie side by side.
LOOPS = frozenset(("cdist", "isin", "native_batch_norm"))


def _apart(op: Op) -> str:
    """What an operation is that does not lie at strides; "" of one that may."""
    name = base_name(op.target)
    name = name if name in STRIDED else name.removesuffix("_")
    if name == "batch_norm" and (op.args[3] is None or True in op.args[5:6]):
        return f"{op.target} by a batch's own statistics, as in training"
    return "" if name in STRIDED and name not in LOOPS else op.target


class _Strides:
    """Values as strides take them: windows tap by tap, of diagonals what is not 0.

    A sum of products of two reads is a product of matrices, and not written so; by a diagonal matrix it is a scaling,
    and with `vectors`, of a matrix and a vector a sum like any other.
    """

    def __init__(self, graph: Values, *, vectors: bool) -> None:
        self.graph = graph
        self.vectors = vectors
        self.summed: set[tuple[tuple[int, ...], ...]] = set()

    def of(self, value: Value) -> Value:
        """The value. Raises `UnwritableError` on products of matrices, and what no loops have in common."""
        if value.kind in ("source", "map") or value.body is None:
            return value
        if value.kind != "reduce":
            raise UnwritableError(value.origin)
        over = tuple(axis.extent for axis in value.reduced)
        if value.taps:
            return self._tap_by_tap(value, over)
        body = value.body
        if value.op not in PLACES:
            if prod(over) == 1:
                return self.graph.map(value.shape, body)
            if body.op == "mul" and (place := on_diagonal(self.graph, over, body)):
                (summed,) = value.reduced
                return self.graph.map(value.shape, self.graph.rewritten(body, {summed: place}, lambda read: read))
            if body.op == "mul" and not (self.vectors and any(_still(read, value.shape) for read in body.args)):
                raise UnwritableError(value.origin)
        self._check(value)
        return value

    def _tap_by_tap(self, value: Value, size: tuple[int, ...]) -> Value:
        """The body at every tap, joined in their order."""
        if prod(size) > MOST_TAPS:
            raise UnwritableError(f"{value.origin} over windows of more than {MOST_TAPS} elements")
        assert value.body is not None
        taps = (dict(zip(value.reduced, map(number, tap), strict=True)) for tap in product(*map(range, size)))
        found = [self.graph.rewritten(value.body, tap, lambda read: read) for tap in taps]
        self.graph.origin = value.origin
        return self.graph.map(value.shape, reduce(partial(self.graph.element, JOINED[value.op], value.dtype), found))

    def _check(self, value: Value) -> None:
        """Raise `UnwritableError` where this sum can have no rows and columns in common with another: at once."""
        loops = (value.axes, value.reduced)
        self.summed.add(tuple(tuple(axis.extent for axis in each if axis.extent != 1) for each in loops))
        if len(self.summed) > 1:
            raise UnwritableError(f"reductions over different dimensions or shapes ({value.origin})")


def _still(read: Node, shape: tuple[int, ...]) -> bool:
    """Whether a factor is the same for every result."""
    moving = axes("i", shape)
    return isinstance(read, Element) and not any(index.uses(axis) for index in read.indices for axis in moving)


@kept(8)
def lower_problem(problem: Problem) -> Lowered:
    """The problem's outputs over strided loads. Raises `UnwritableError` saying what strides cannot."""
    return _Reading(problem).lowered()


class _Reading:
    """The values of a forward, on their way to nodes. Every method raises `UnwritableError` where there is none."""

    def __init__(self, problem: Problem) -> None:
        if other := next(filter(None, map(_apart, live(problem))), None):
            raise UnwritableError(other)
        if empty := next((tensor.name for tensor in problem.outputs if not tensor.numel), None):
            raise UnwritableError(f"an output without elements ({empty})")
        made = traced(problem)
        self.graph, self.operations = made.graph, made.operations
        roots = renewed(self.graph, (node for _, node in made.outputs), _Strides(self.graph, vectors=problem.on_gpu).of)
        self.outputs = tuple((tensor, root) for (tensor, _), root in zip(made.outputs, roots, strict=True))
        self.given = {each.name: each for each in (*problem.inputs, *problem.parameters) if isinstance(each, Tensor)}
        self.inliner = Inliner(self.graph, lambda value: value.kind != "map")
        self.sums: list[Value] = []
        for value in values(*(node for _, node in self.outputs if isinstance(node, Value))):
            if value.kind == "map":
                self.inliner.body(value)
            elif value.kind == "reduce":
                self.sums.append(value)

    def lowered(self) -> Lowered:
        """All outputs as nodes over strided loads."""
        made = self._rows() if self.sums else tuple(self._alone(tensor, node) for tensor, node in self.outputs)
        return Lowered(self.graph, made, self.operations)

    def _body(self, tensor: Tensor, node: Node) -> Node:
        return self.inliner.inlined(self.graph.spread(node, tensor.shape))

    def _alone(self, tensor: Tensor, node: Node) -> tuple[Tensor, Node]:
        """An output over its own shape, or a finer one."""
        own = axes("i", tensor.shape)
        loops = Loops((own, ()), (linear(map(along, own), tensor.strides),), (self._body(tensor, node),))
        nodes = _Nodes(self, loops := loops.split(self.graph, self._addresses))
        return nodes.placed(tensor, loops.indices[0]), nodes.of(loops.nodes[0])

    def _rows(self) -> tuple[tuple[Tensor, Node], ...]:
        """All outputs over the shape that the sums go over."""
        first = _Shape.of(self.sums[0])
        indices, bodies = [], []
        for value in self.sums:
            at = _Shape.of(value).placed(first)
            indices.append(linear((at[axis] for axis in value.axes), packed_strides(value.shape)))
            bodies.append(self.graph.rewritten(self.inliner.body(value), at, lambda read: read))
        for tensor, node in self.outputs:
            at = first.spread(tensor)
            indices.append(linear((at[axis] for axis in axes("i", tensor.shape)), tensor.strides))
            bodies.append(self.graph.rewritten(self._body(tensor, node), at, lambda read: read))
        loops = Loops((first.common, first.columns), tuple(indices), tuple(bodies)).split(self.graph, self._addresses)
        nodes, found = _Nodes(self, loops), iter(zip(loops.indices, loops.nodes, strict=True))
        for value, (place, body) in zip(self.sums, found, strict=False):
            nodes.hold(value, place, body)
        return tuple(
            (nodes.placed(tensor, place), nodes.of(body))
            for (tensor, _), (place, body) in zip(self.outputs, found, strict=True)
        )

    def _addresses(self, loops: Loops) -> Iterator[Index]:
        yield from map(self.address, reads(*loops.nodes))
        yield from loops.indices

    def address(self, read: Element) -> Index:
        """Where a read lies, in elements."""
        value = read.value
        assert value is not None
        if read.partial:
            raise UnwritableError(f"elements that may be missing ({read.origin})")
        strides = self.given[value.op].strides if value.kind == "source" else packed_strides(value.shape)
        return linear(read.indices, strides)


class _Nodes:
    """Nodes over one shape, made of elements over its loops."""

    def __init__(self, reading: _Reading, loops: Loops) -> None:
        self.reading = reading
        self.graph = reading.graph
        self.loops, columns = loops.groups
        self.shape = tuple(axis.extent for axis in self.loops)
        self.dims = tuple(dim for dim, axis in enumerate(self.loops) if axis in columns)
        self.sums: dict[int, tuple[Index, Node]] = {}
        self.made: dict[int, Node] = {}

    def hold(self, value: Value, place: Index, body: Node) -> None:
        """A sum over the columns; `place` is the row's own among its value."""
        args, origin = (self.of(body),), value.origin
        total = self.graph.make("reduce", value.op, value.dtype, self.shape, args, self.dims, origin)
        self.sums[id(value)] = place, self.graph.make("gathered", "", value.dtype, self.shape, (total,), (), origin)

    def placed(self, tensor: Tensor, address: Index) -> Tensor:
        """An output over the loops; of one number a row, with an extent of 1 along the columns."""
        strides = _steps(address, self.loops, f"the output {tensor.name}")
        whole = tensor.numel == prod(self.shape)
        shape = tuple(1 if dim in self.dims and not whole else extent for dim, extent in enumerate(self.shape))
        return tensor.model_copy(update={"shape": shape, "strides": strides})

    def of(self, root: Node) -> Node:
        """The node of an element."""
        for node in elements(root):
            if id(node) not in self.made:
                self.made[id(node)] = self._node(node)
        return self.made[id(root)]

    def _node(self, node: Node) -> Node:
        if node.uniform:
            return node
        if isinstance(node, Element):
            return self._read(node)
        args = tuple(self.made[id(arg)] for arg in node.args)
        return self.graph.make("compute", node.op, node.dtype, self.shape, args, (), node.origin)

    def _read(self, node: Element) -> Node:
        if node.kind != "read" or node.value is None:
            raise UnwritableError(f"a choice by where an element is ({node.origin})")
        address = self.reading.address(node)
        if node.value.kind == "source":
            payload = (address.offset, *_steps(address, self.loops, node.origin))
            return self.graph.make("load", node.value.op, node.dtype, self.shape, (), payload, node.origin)
        place, total = self.sums[id(node.value)]
        if address != place:
            raise UnwritableError(f"the result of {node.value.origin} used outside of its row")
        return total


def _steps(index: Index, loops: tuple[Axis, ...], origin: str) -> tuple[int, ...]:
    """What each loop adds to an address."""
    if not all(isinstance(atom, Axis) for atom, _ in index.terms):
        raise UnwritableError(f"elements that no strides reach ({origin})")
    return tuple(index.times(axis) or 0 for axis in loops)


@dataclass(frozen=True)
class _Shape:
    """A sum's loops of more than one step, in the order in which its operand has them."""

    order: tuple[Axis, ...]
    value: Value

    @classmethod
    def of(cls, value: Value) -> _Shape:
        """The shape of a reduction's operand."""
        if not prod(axis.extent for axis in (*value.axes, *value.reduced)):
            raise UnwritableError(f"a reduction over a tensor without elements ({value.origin})")
        assert value.body is not None
        orders = [
            dict.fromkeys(atom for index in read.indices for atom, _ in sorted(index.terms, key=_outer_first))
            for read in reads(value.body)
        ]
        order = tuple(each for each in max(orders, key=len, default=()) if isinstance(each, Axis))
        if set(order) != {axis for axis in (*value.axes, *value.reduced) if axis.extent != 1}:
            raise UnwritableError(f"elements that no strides reach ({value.origin})")
        return cls(order, value)

    @property
    def common(self) -> tuple[Axis, ...]:
        """The loops that all sums and outputs are brought to."""
        return axes("a", (axis.extent for axis in self.order))

    @property
    def columns(self) -> tuple[Axis, ...]:
        """Those of them that are summed."""
        return self._among(self.value.reduced)

    def _among(self, own: tuple[Axis, ...]) -> tuple[Axis, ...]:
        common = dict(zip(self.order, self.common, strict=True))
        return tuple(common[axis] for axis in own if axis in common)

    def placed(self, first: _Shape) -> dict[Axis, Index]:
        """The value's axes over another sum's common loops."""
        value = self.value
        mine, theirs = ([(axis.extent, axis in each.value.reduced) for axis in each.order] for each in (self, first))
        if mine != theirs:
            raise UnwritableError(f"reductions over different dimensions or shapes ({value.origin})")
        places = dict(zip(self.order, map(along, first.common), strict=True))
        return {axis: places.get(axis, number(0)) for axis in (*value.axes, *value.reduced)}

    def spread(self, tensor: Tensor) -> dict[Axis, Index]:
        """An output's axes over the common loops, or over those of the rows."""
        choices = (self.common, self._among(self.value.axes))
        loops = next((each for each in choices if prod(axis.extent for axis in each) == tensor.numel), None)
        if loops is None:
            raise UnwritableError(f"an output that is neither a row nor a number a row ({tensor.name})")
        place = linear(map(along, loops), packed_strides(tuple(axis.extent for axis in loops)))
        return dict(zip(axes("i", tensor.shape), unravelled(place, tensor.shape), strict=True))


def _outer_first(term: tuple[Atom, int]) -> int:
    return -abs(term[1])
