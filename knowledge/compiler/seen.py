"""Masks that positions alone make: whether a row sees a key where key <= row + diagonal, and what is left without."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from knowledge.compiler.index import Axis
from knowledge.compiler.nodes import Element
from knowledge.playbook.expressions import Node

_COMPARED: dict[str, Callable[[float, float], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
Fork = tuple[Element, float, float]
"""A condition on positions, and the number that an element is where it holds, and where it does not."""


def diagonal_of(score: Node, row: Axis, key: Axis) -> tuple[int | None, Node]:
    """The diagonal that a score's outermost mask sets, and the score where it is seen; None and the score itself.

    A mask that is added is none: infinity and NaN go through -inf, so that a row shows what it does not see.
    """
    if score.op == "select":
        condition, one, other = score.args
        if _is(other, -math.inf) and (found := _diagonal(_fork(condition), row, key)) is not None:
            return found, one
        if _is(one, -math.inf) and (found := _diagonal(_opposite(_fork(condition)), row, key)) is not None:
            return found, other
    return None, score


def _is(node: Node, number: float) -> bool:
    return node.kind == "const" and node.payload[0] == number


def _opposite(fork: Fork | None) -> Fork | None:
    return (fork[0], float(not fork[1]), float(not fork[2])) if fork else None


def _fork(node: Node) -> Fork | None:
    """An element that is one of two numbers, by a condition on positions."""
    if isinstance(node, Element):
        return (node, 1, 0) if node.kind == "within" else None
    if node.op == "select":
        fork, numbers = _fork(node.args[0]), [each.payload[0] for each in node.args[1:] if each.kind == "const"]
        if fork is None or len(numbers) < 2:
            return None
        chosen = [float(numbers[0] if each else numbers[1]) for each in fork[1:]]
        return fork[0], chosen[0], chosen[1]
    if node.op in _COMPARED and node.args[1].kind == "const":
        fork, by = _fork(node.args[0]), float(node.args[1].payload[0])
        return (fork[0], *(float(_COMPARED[node.op](each, by)) for each in fork[1:])) if fork else None  # type: ignore[return-value]
    if node.op == "cast":
        fork = _fork(node.args[0])
        return (fork[0], float(bool(fork[1])), float(bool(fork[2]))) if fork and node.dtype == "bool" else fork
    return _opposite(_fork(node.args[0])) if node.op == "not" else None


def _diagonal(fork: Fork | None, row: Axis, key: Axis) -> int | None:
    """Where a fork is 1 for key <= row + diagonal and 0 elsewhere: the diagonal."""
    if fork is None or fork[1:] not in ((1, 0), (0, 1)):
        return None
    (index,), extent = fork[0].indices, fork[0].extent
    steps, (low, high) = (index.times(row), index.times(key)), index.bounds
    if len(index.terms) != 2 or steps not in ((1, -1), (-1, 1)) or (low < 0 and high >= extent):
        return None
    # One side always holds: what remains is key <= row + diagonal, or key > row + diagonal.
    if low < 0:
        seen, found = steps == (1, -1), index.offset if steps == (1, -1) else -index.offset - 1
    else:
        seen, found = steps == (-1, 1), extent - 1 - index.offset if steps == (-1, 1) else index.offset - extent
    return found if seen == bool(fork[1]) else None
