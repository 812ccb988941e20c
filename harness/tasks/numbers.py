"""The whole numbers that stand in a Python file, and the file with others in their places."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

_MOST = 1 << 40
"""No size is larger; nothing larger is computed on the way either."""
_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}


class NumberSpan(NamedTuple):
    """Where a number stands: its line (from 1), and the bytes of that line before it and before its end."""

    line: int
    start: int
    end: int


def whole_numbers(source: str) -> list[tuple[NumberSpan, int]]:
    """Every constant whole number, computed where it is written as `2 * 2048` or `2**14`. Nothing for a broken file."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    return list(_found(tree))


def span_of(node: ast.expr) -> NumberSpan:
    """Where an expression on one line stands."""
    assert node.end_col_offset is not None
    return NumberSpan(node.lineno, node.col_offset, node.end_col_offset)


def with_numbers(source: str, numbers: Mapping[NumberSpan, int]) -> str:
    """The file with these numbers in those places."""
    lines = source.split("\n")
    for place in sorted(numbers, reverse=True):
        line = lines[place.line - 1].encode()
        lines[place.line - 1] = (line[: place.start] + str(numbers[place]).encode() + line[place.end :]).decode()
    return "\n".join(lines)


def _found(node: ast.AST) -> Iterator[tuple[NumberSpan, int]]:
    if isinstance(node, ast.expr) and node.lineno == node.end_lineno and (value := _value(node)) is not None:
        yield span_of(node), value
        return
    if not isinstance(node, ast.JoinedStr):  # whose parts tell wrong places before Python 3.12
        for child in ast.iter_child_nodes(node):
            yield from _found(child)


def _value(node: ast.expr) -> int | None:
    """What a constant expression of whole numbers comes to."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    operation = _OPERATIONS.get(type(node.op)) if isinstance(node, ast.BinOp) else None
    if operation is None or not isinstance(node, ast.BinOp):
        return None
    left, right = _value(node.left), _value(node.right)
    if left is None or right is None or not _small(node.op, left, right):
        return None
    return operation(left, right)


def _small(how: ast.operator, left: int, right: int) -> bool:
    """Whether the result is none that takes long to compute."""
    if isinstance(how, ast.Pow | ast.LShift):
        return 0 <= left <= 1 << 20 and 0 <= right <= 40 and (isinstance(how, ast.LShift) or left**right <= _MOST)
    divides = not isinstance(how, ast.FloorDiv) or right != 0
    return divides and max(abs(left), abs(right)) <= _MOST
