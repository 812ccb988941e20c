"""What an element of a kernel is computed from: nodes, the same one for the same expression.

The schedules of pointwise graphs and of rows take nodes over strided loads, which are read off the compiler's values
(`schedule/strided_reading.py`). Those, and their elements, are nodes too (`ir/nodes.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from knowledge.compiler.problem import Scalar

# After these, those of `ir/nodes.py`.
Kind = Literal[
    "load", "scalar", "const", "compute", "reduce", "gathered",
    "source", "map", "scan", "steps", "loop", "sort", "read", "before", "position", "within", "total",
]  # fmt: skip
Payload = tuple[int | float | bool | str, ...]


T = TypeVar("T")


class UnwritableError(Exception):
    """An operation, or a use of one, that the playbook cannot write; `str()` names it."""


@dataclass(frozen=True, eq=False)
class Node:
    """One value of the kernel, compared by identity: `Graph` hands out one node for one expression.

    | kind | op | args | payload | shape |
    |---|---|---|---|---|
    | load | tensor's name | - | offset, then one stride a dimension | of the kernel's loops |
    | scalar | argument's name | - | - | () |
    | const | - | - | the number | () |
    | compute | primitive | operands, each of this shape or uniform | - | of the kernel's loops |
    | reduce | sum, amax, amin, prod, argmax, argmin | operand | reduced dimensions | of the operand |
    | gathered | - | the reduce node | - | of the operand: each row's result for all of its columns |

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
        """Strides of a load, in elements."""
        return tuple(int(step) for step in self.payload[1:])

    @property
    def offset(self) -> int:
        """Elements from a load's data pointer to its first element."""
        return int(self.payload[0])


def ordered(roots: Sequence[T], under: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """All that lies under `roots`, each once and behind what is `under` it, of which the last comes first."""
    seen: set[int] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        each, expanded = stack.pop()
        if id(each) in seen:
            continue
        if expanded:
            seen.add(id(each))
            yield each
        else:
            stack.append((each, True))
            stack.extend((other, False) for other in under(each))


def postorder(roots: tuple[Node, ...]) -> Iterator[Node]:
    """Every node under `roots` once, operands before their users."""
    return ordered(roots, lambda node: reversed(node.args))


@dataclass
class Graph:
    """Builds nodes, the same one for the same expression. `origin` marks the nodes made from here on."""

    origin: str = ""
    _nodes: dict[tuple[object, ...], Node] = field(default_factory=dict)

    def scalar(self, scalar: Scalar) -> Node:
        """A number passed by value, with torch's element type for such a number."""
        dtype = {"float": "float64", "int": "int64", "bool": "bool"}[scalar.type]
        return self.make("scalar", scalar.name, dtype, (), (), ())

    def const(self, value: float | int | bool, dtype: str) -> Node:
        """A number known now."""
        return self.make("const", "", dtype, (), (), (repr(value), value))

    def make(
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
