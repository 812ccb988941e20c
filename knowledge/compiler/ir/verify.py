"""What holds of every program between stages: types, shapes, bounds, and that each axis is one of its value's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Axis
from knowledge.compiler.ir.nodes import ORDERS, PLACES, REDUCTIONS, SCANS, Element, Region, Value, elements, values
from knowledge.compiler.ir.primitives import COMPARISONS, PRIMITIVES


class MalformedError(Exception):
    """A program that no pass may make: a defect of the compiler, never of the module. `str()` says where and what."""


def verify(roots: Iterable[Node]) -> None:
    """Raises `MalformedError` on the first value under `roots` that is not as `ir/nodes.py` says."""
    for value in values(*(root for root in roots if isinstance(root, Value))):
        for problem in _problems(value, ()) if value.region is None else _inside(value.region):
            raise MalformedError(f"{value.kind} {value.dtype}{list(value.shape)} of {value.origin}: {problem}")


def _inside(region: Region) -> Iterator[str]:
    for value in region.inner:
        yield from _problems(value, (region.axis,))
    for each in region.carried:
        if (each.before.shape, each.before.dtype) != (each.after.shape, each.after.dtype):
            yield "what is carried changes its shape or its type"


def _problems(value: Value, around: tuple[Axis, ...]) -> Iterator[str]:
    if value.kind == "source":
        return
    if value.body is None or (value.kind == "reduce" and value.op not in REDUCTIONS):
        yield f"no body, or no reduction {value.op!r}"
        return
    if value.kind == "scan" and (value.op not in SCANS or value.dim >= len(value.shape)):
        yield f"no scan {value.op!r} along dimension {value.dim}"
    if value.kind == "sort" and (value.op not in ORDERS or value.dim >= len(value.shape) or len(value.reduced) != 1):
        yield f"no sort {value.op!r} along dimension {value.dim}"
    own = "int64" if value.kind == "sort" or value.op in PLACES else value.body.dtype
    if tuple(axis.extent for axis in value.axes) != value.shape or own != value.dtype:
        yield "its axes or its body's type are not its own"
    if value.kind == "steps" and (len(value.shape) < 2 or any(each.dtype != value.dtype for each in value.sums)):
        yield "steps without a dimension of states and one of steps, or sums of another type"
    axes = {*around, *value.axes, *value.reduced}
    empty = not prod(axis.extent for axis in axes)
    for node in elements(*value.bodies):
        yield from _element(node, axes, empty) if isinstance(node, Element) else _compute(node)


def _element(node: Element, axes: set[Axis], empty: bool) -> Iterator[str]:
    used = {atom for index in node.indices for atom in index.atoms() if isinstance(atom, Axis)}
    if not used <= axes:
        yield f"a {node.kind} at axes of another value: {sorted(axis.name for axis in used - axes)}"
    if node.kind != "read":
        return
    assert node.value is not None
    if node.dtype != node.value.dtype or len(node.indices) != len(node.value.shape):
        yield "a read of another type, or with more or fewer indices than dimensions"
    elif not node.partial and not empty:
        ends = zip(node.indices, node.value.shape, strict=True)
        if not all(index.within(extent) for index, extent in ends):
            yield f"a read beyond {list(node.value.shape)} that is not said to be partial"


def _compute(node: Node) -> Iterator[str]:
    if node.kind != "compute" or node.op == "cast":
        return
    if node.op not in PRIMITIVES:
        yield f"no primitive {node.op!r}"
    if (node.op in COMPARISONS) != (node.dtype == "bool") and node.op not in ("and", "or", "xor", "not", "select"):
        yield f"{node.op} of type {node.dtype}"
    operands = node.args[1:] if node.op == "select" else node.args
    if len({each.dtype for each in operands}) > 1:
        yield f"{node.op} of {', '.join(each.dtype for each in operands)}"
