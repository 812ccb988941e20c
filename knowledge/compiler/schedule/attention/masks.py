"""Masks that positions make: which band of keys around the diagonal a row sees, and the score without the mask.

A mask is any condition of the distance key - row: comparisons of positions, triangles of ones, `abs`, and, or, not.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import NamedTuple

from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Axis, Index, number
from knowledge.compiler.ir.nodes import Element, Values

ByDistance = Callable[[int], float]
"""A number by the distance key - row."""
_OPERATORS: dict[str, Callable[..., float]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "and": lambda x, y: bool(x) and bool(y), "or": lambda x, y: bool(x) or bool(y), "not": operator.not_, "abs": abs,
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg,
    "select": lambda condition, x, y: x if condition else y,
}  # fmt: skip
_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
# What a change of the element type leaves as it is.
_EXACT = frozenset({0, 1, math.inf, -math.inf})


class Band(NamedTuple):
    """A row sees the keys from row + `first` to row + `last`; None is no bound."""

    first: int | None = None
    last: int | None = None

    def within(self, other: Band) -> Band:
        """The keys that both bands hold."""
        firsts = [each for each in (self.first, other.first) if each is not None]
        lasts = [each for each in (self.last, other.last) if each is not None]
        return Band(max(firsts, default=None), min(lasts, default=None))


class _Mask(NamedTuple):
    """A part of a condition, and whether keys are seen where it is true or where it is false."""

    condition: Node
    seen: bool


def band_of(graph: Values, score: Node, row: Axis, key: Axis) -> tuple[Band, Node]:
    """The band that a score's outer masks leave of the keys, and the score under the masks that the band does not say.

    A mask that is added is none: infinity and NaN go through -inf, so that a row shows what it does not see.
    """
    split = _split(score)
    if split is None:
        return Band(), score
    masks, inner, hidden = split
    band, rest = band_of(graph, inner, row, key)
    for mask in masks:
        found, exact = _band(mask, row, key)
        band = band.within(found)
        if not exact:
            sides = (rest, hidden) if mask.seen else (hidden, rest)
            rest = graph.element("select", score.dtype, mask.condition, *sides)
    return band, rest


def _split(score: Node) -> tuple[list[_Mask], Node, Node] | None:
    """A masked score's masks, all of which a seen key passes, the score below them, and what hides the others."""
    if score.op != "select":
        return None
    condition, one, other = score.args
    for seen, shown, hidden in ((True, one, other), (False, other, one)):
        if hidden.kind == "const" and hidden.payload[0] == -math.inf:
            return list(_conjuncts(condition, seen)), shown, hidden
    return None


def _conjuncts(condition: Node, seen: bool) -> Iterator[_Mask]:
    if condition.op == "not":
        yield from _conjuncts(condition.args[0], not seen)
    elif condition.op == ("and" if seen else "or"):
        for each in condition.args:
            yield from _conjuncts(each, seen)
    else:
        yield _Mask(condition, seen)


def _band(mask: _Mask, row: Axis, key: Axis) -> tuple[Band, bool]:
    """The least band that holds all keys that the mask shows, and whether it holds no others."""
    holds = _by_distance(mask.condition, row, key)
    if holds is None:
        return Band(), False
    nearest, farthest = 1 - row.extent, key.extent - 1
    seen = [each for each in range(nearest, farthest + 1) if bool(holds(each)) is mask.seen]
    if not seen:
        return Band(), False
    first, last = seen[0], seen[-1]
    band = Band(first if first > nearest else None, last if last < farthest else None)
    return band, len(seen) == last - first + 1


def _by_distance(node: Node, row: Axis, key: Axis) -> ByDistance | None:
    """A node by the distance key - row; None where anything else decides it."""
    if (index := _affine(node)) is not None:
        return _line(index, row, key)
    if isinstance(node, Element):
        return _within(node, row, key) if node.kind == "within" else None
    if node.kind == "const":
        return lambda _, value=float(node.payload[0]): value  # type: ignore[misc]
    if node.op in _COMPARISONS:
        one, other = (_affine(each) for each in node.args)
        if one is not None and other is not None:
            return _composed(_OPERATORS[node.op], _line(one - other, row, key), lambda _: 0)
    args = [_by_distance(each, row, key) for each in node.args]
    if node.op == "cast":
        return args[0] if args[0] is not None and _survives(node, args[0], row, key) else None
    return _composed(_OPERATORS[node.op], *args) if node.op in _OPERATORS else None


def _composed(function: Callable[..., float], *args: ByDistance | None) -> ByDistance | None:
    known = [each for each in args if each is not None]
    return (lambda d: function(*(each(d) for each in known))) if len(known) == len(args) else None


def _survives(cast: Node, value: ByDistance, row: Axis, key: Axis) -> bool:
    return all(value(each) in _EXACT for each in range(1 - row.extent, key.extent))


def _within(node: Element, row: Axis, key: Axis) -> ByDistance | None:
    place, extent = _line(node.indices[0], row, key), node.extent
    return _composed(lambda at: 0 <= at < extent, place)


def _line(index: Index, row: Axis, key: Axis) -> ByDistance | None:
    """An index that grows with the distance alone."""
    step = index.times(key)
    if step is None or index.times(row) != -step or len(index.terms) > 2:
        return None
    if step == 0 and index.terms:
        return None
    return lambda d: step * d + index.offset


def _affine(node: Node) -> Index | None:
    """A whole number as a sum of multiples of axes."""
    if isinstance(node, Element):
        return node.indices[0] if node.kind == "position" else None
    if node.kind == "const":
        return number(int(node.payload[0])) if node.dtype.startswith("int") else None
    if node.op == "cast" and node.dtype.startswith("int") and node.args[0].dtype.startswith("int"):
        return _affine(node.args[0])
    if node.op not in ("add", "sub") or not node.dtype.startswith("int"):
        return None
    one, other = (_affine(each) for each in node.args)
    if one is None or other is None:
        return None
    return one + other if node.op == "add" else one - other
