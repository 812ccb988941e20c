"""What a kernel computes, as a graph of elementwise nodes over strided loads.

Views never become nodes: a permuted, expanded, sliced or reshaped value is the same arithmetic over loads with other
strides. So whatever mixture of views and arithmetic a module contains, what is left is one expression an output.

A reshape that strides cannot say is kept apart, at the top: all below it is computed in the finer shape that it merges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from knowledge.playbook import strided
from knowledge.playbook.problem import Scalar, Tensor

# After these, those of `knowledge/compiler/nodes.py`.
Kind = Literal[
    "load", "scalar", "const", "compute", "reduce", "gathered", "reshaped",
    "source", "map", "scan", "steps", "sort", "read", "before", "position", "within", "total",
]  # fmt: skip
Payload = tuple[int | float | bool | str, ...]


class UnwritableError(Exception):
    """An operation, or a use of one, that the playbook cannot write; `str()` names it."""


@dataclass(frozen=True, eq=False)
class Node:
    """One value of the kernel, compared by identity: `Graph` hands out one node for one expression.

    | kind | op | args | payload | shape |
    |---|---|---|---|---|
    | load | tensor's name | - | offset, then one stride a dimension | of the view |
    | scalar | argument's name | - | - | () |
    | const | - | - | the number | () |
    | compute | primitive | operands, each of this shape or uniform | - | of the result |
    | reduce | sum, amax, amin, prod, argmax, argmin | operand | reduced dimensions | of the operand |
    | gathered | - | the reduce node | one stride a dimension, over its kept dimensions packed row-major | of the view |
    | reshaped | - | the value in a finer shape, itself none of this kind | - | its dimensions, neighbours merged |

    `origin` is the traced operation it came from, for the comment beside the statement.
    """

    kind: Kind
    op: str
    dtype: str
    shape: tuple[int, ...] = ()
    args: tuple[Node, ...] = ()
    payload: Payload = ()
    origin: str = ""

    @property
    def uniform(self) -> bool:
        """Whether it holds one number for all elements, known before the loop starts."""
        return self.kind in ("scalar", "const") or (self.kind == "compute" and all(arg.uniform for arg in self.args))

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides of a load (in elements) or of a gathered reduction."""
        return tuple(int(step) for step in (self.payload[1:] if self.kind == "load" else self.payload))

    @property
    def offset(self) -> int:
        """Elements from a load's data pointer to its first element."""
        return int(self.payload[0])


def postorder(roots: tuple[Node, ...], *, into_reductions: bool = True) -> Iterator[Node]:
    """Every node under `roots` once, operands before their users; optionally not what a reduction is made of."""
    seen: set[int] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, expanded = stack.pop()
        if id(node) in seen:
            continue
        if expanded:
            seen.add(id(node))
            yield node
        else:
            stack.append((node, True))
            if into_reductions or node.kind != "gathered":
                stack.extend((arg, False) for arg in reversed(node.args))


ViewOf = Callable[[tuple[int, ...], tuple[int, ...]], strided.View]


@dataclass
class Graph:
    """Builds nodes, the same one for the same expression. `origin` marks the nodes made from here on."""

    origin: str = ""
    _nodes: dict[tuple[object, ...], Node] = field(default_factory=dict)

    def load(self, tensor: Tensor) -> Node:
        """All elements of an argument."""
        return self._make("load", tensor.name, tensor.dtype, tensor.shape, (), (0, *tensor.strides))

    def scalar(self, scalar: Scalar) -> Node:
        """A number passed by value, with torch's element type for such a number."""
        dtype = {"float": "float64", "int": "int64", "bool": "bool"}[scalar.type]
        return self._make("scalar", scalar.name, dtype, (), (), ())

    def const(self, value: float | int | bool, dtype: str) -> Node:
        """A number known now."""
        return self._make("const", "", dtype, (), (), (repr(value), value))

    def compute(self, op: str, dtype: str, *args: Node) -> Node:
        """An elementwise primitive; operands are broadcast against each other."""
        shape = strided.broadcast_shape(tuple(arg.shape for arg in args))
        if any(arg.kind == "reshaped" for arg in args):
            return self.reshape(self.compute(op, dtype, *self._refined(args, shape)), shape)
        operands = tuple(arg if arg.uniform else self.expand(arg, shape) for arg in args)
        return self._make("compute", op, dtype, shape, operands, ())

    def reduce(self, op: str, dtype: str, operand: Node, dims: tuple[int, ...], keepdim: bool) -> Node:
        """A reduction over `dims` (non-negative, sorted)."""
        if operand.uniform:
            raise UnwritableError("a reduction over a constant")
        if operand.kind == "reshaped":
            return self._reduce_finer(op, dtype, operand, dims, keepdim)
        reduction = self._make("reduce", op, dtype, operand.shape, (operand,), dims)
        kept = tuple(extent for dim, extent in enumerate(operand.shape) if dim not in dims)
        node = self._make("gathered", "", dtype, kept, (reduction,), strided.packed_strides(kept))
        if keepdim:
            shape = tuple(1 if dim in dims else extent for dim, extent in enumerate(operand.shape))
            return self.reshape(node, shape)
        return node

    def _reduce_finer(self, op: str, dtype: str, operand: Node, dims: tuple[int, ...], keepdim: bool) -> Node:
        """Over the dimensions that the reduced ones were merged from."""
        finer, first = operand.args[0], 0
        parts: list[int] = []
        for dim, extent in enumerate(operand.shape):
            last = first
            while prod(finer.shape[first:last]) < extent or (last < len(finer.shape) and finer.shape[last] == 1):
                last += 1
            parts += range(first, last) if dim in dims else ()
            first = last
        if not parts:
            raise UnwritableError(f"a reduction of a reshape over one element ({self.origin})")
        made = self.reduce(op, dtype, finer, tuple(parts), keepdim=False)
        kept = tuple(
            1 if dim in dims else extent for dim, extent in enumerate(operand.shape) if keepdim or dim not in dims
        )
        return self.reshape(made, kept)

    def _refined(self, args: tuple[Node, ...], shape: tuple[int, ...]) -> list[Node]:
        """Operands of one shape in the finer one that all their reshapes merge."""
        finer = shape
        for arg in args:
            if arg.kind == "reshaped":
                if arg.shape != shape:
                    raise UnwritableError(f"a reshape that would need a copy, repeated ({self.origin})")
                finer = strided.common_shape(finer, arg.args[0].shape)
        wide = (arg if arg.uniform or arg.kind == "reshaped" else self.expand(arg, shape) for arg in args)
        return [arg if arg.uniform else self.reshape(arg, finer) for arg in wide]

    def expand(self, node: Node, shape: tuple[int, ...]) -> Node:
        """Broadcast to `shape`."""
        if node.kind == "reshaped" and node.shape == shape:
            return node
        return self.view(node, lambda old, strides: strided.expand(old, strides, shape))

    def reshape(self, node: Node, shape: tuple[int, ...]) -> Node:
        """The same elements in row-major order under another shape. Raises `UnwritableError` where none is finer."""
        if node.kind == "reshaped":
            return self.reshape(node.args[0], shape)
        try:
            return self.view(node, lambda old, strides: strided.reshape(old, strides, shape))
        except UnwritableError as failure:
            shape = strided.resolve(node.shape, shape)
            try:
                finer = strided.common_shape(node.shape, shape)
            except strided.NotAView:
                raise failure from None
            split = self.view(node, lambda old, strides: strided.reshape(old, strides, finer))
            return self._make("reshaped", "", node.dtype, shape, (split,), ())

    def view(self, node: Node, view_of: ViewOf) -> Node:
        """Apply a view to every load underneath. Raises `UnwritableError` where strides cannot say it."""
        if node.kind == "reshaped":
            raise UnwritableError(f"a view of a reshape that would need a copy ({self.origin})")
        memo: dict[int, Node] = {}
        for each in postorder((node,), into_reductions=False):
            memo[id(each)] = self._viewed(each, view_of, memo)
        return memo[id(node)]

    def _viewed(self, node: Node, view_of: ViewOf, memo: dict[int, Node]) -> Node:
        if node.uniform:
            return node
        try:
            view = view_of(node.shape, node.strides if node.kind != "compute" else strided.packed_strides(node.shape))
        except strided.NotAView as failure:
            raise UnwritableError(f"{failure} ({self.origin})") from failure
        if node.kind == "compute":
            args = tuple(memo[id(arg)] for arg in node.args)
            return self._make("compute", node.op, node.dtype, view.shape, args, (), node.origin)
        payload = (node.offset + view.offset, *view.strides) if node.kind == "load" else view.strides
        if node.kind == "gathered" and view.offset:
            raise UnwritableError(f"a slice of a reduction's result ({self.origin})")
        return self._make(node.kind, node.op, node.dtype, view.shape, node.args, payload, node.origin)

    def _make(
        self,
        kind: Kind,
        op: str,
        dtype: str,
        shape: tuple[int, ...],
        args: tuple[Node, ...],
        payload: Payload,
        origin: str = "",
    ) -> Node:
        key = (kind, op, dtype, shape, payload, *(id(arg) for arg in args))
        if kind == "const":
            key = (kind, dtype, payload[0], type(payload[1]))
            payload = payload[1:]
        if key not in self._nodes:
            self._nodes[key] = Node(kind, op, dtype, shape, args, payload, origin or self.origin)
        return self._nodes[key]
