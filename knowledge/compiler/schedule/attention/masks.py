"""Masks: which band of keys around the diagonal a row sees, the score without that, and what else hides keys.

A band is any condition of the distance key - row (comparisons of positions, triangles of ones, `abs`, and, or, not), or
of it and of keys at the beginning, a prefix. Another mask stays in the score, and a kernel asks it of a whole tile.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import NamedTuple

from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Axis, Index, number
from knowledge.compiler.ir.nodes import Element, Values

ByPlace = Callable[[int], float]
"""A number by one whole number: a row, a key, or the distance key - row."""
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
    """A row sees the keys from row + `first` to row + `last`, None being no bound.

    It also sees the first `sinks` keys, however early, and the first `prefix` keys, however late.
    """

    first: int | None = None
    last: int | None = None
    sinks: int = 0
    prefix: int = 0

    def within(self, other: Band) -> Band | None:
        """The keys that both bands hold; None where no band holds just these."""
        firsts = [(-one.first, one.sinks) for one in (self, other) if one.first is not None]
        lasts = [(one.last, one.prefix) for one in (self, other) if one.last is not None]
        lower, upper = min(firsts, default=None), min(lasts, default=None)
        # What bounds the keys more must leave out no more of the first ones than the other does.
        if any(more < least[1] for least, sides in ((lower, firsts), (upper, lasts)) if least for _, more in sides):
            return None
        return Band(
            -lower[0] if lower else None, upper and upper[0], *(each[1] if each else 0 for each in (lower, upper))
        )

    def reach(self, row: int, keys: int) -> int:
        """The first of `keys` keys that neither this row nor an earlier one sees."""
        return keys if self.last is None else min(keys, max(0, row + self.last + 1, self.prefix))


class _Mask(NamedTuple):
    """A part of a condition, and whether keys are seen where it is true or where it is false."""

    condition: Node
    seen: bool


class _Along(NamedTuple):
    """One whole number that a condition may hang on: how far it goes, and an index by it."""

    places: range
    line: Callable[[Index], ByPlace | None]


class _Axes(NamedTuple):
    row: Axis
    key: Axis

    @property
    def distance(self) -> _Along:
        """From a row to a key."""
        return _Along(range(1 - self.row.extent, self.key.extent), lambda index: _line(index, self.row, self.key))

    def alone(self, axis: Axis) -> _Along:
        """A row or a key."""
        return _Along(range(axis.extent), lambda index: _straight(index, axis))


def band_of(graph: Values, score: Node, row: Axis, key: Axis) -> tuple[Band, Node, list[Node]]:
    """The band that a score's outer masks leave of the keys, the score under the masks that the band does not say, and
    the conditions of these, all true of a key that is seen.

    A mask that is added is none: infinity and NaN go through -inf, so that a row shows what it does not see.
    """
    split = _split(score)
    if split is None:
        return Band(), score, []
    masks, inner, hidden = split
    band, rest, conditions = band_of(graph, inner, row, key)
    for mask in masks:
        found, exact = _band(mask, _Axes(row, key))
        both = band.within(found)
        band = both or band
        if both is None or not exact:
            sides = (rest, hidden) if mask.seen else (hidden, rest)
            rest = graph.element("select", score.dtype, mask.condition, *sides)
            conditions.append(mask.condition if mask.seen else graph.element("not", "bool", mask.condition))
    return band, rest, conditions


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


def _band(mask: _Mask, axes: _Axes) -> tuple[Band, bool]:
    """The least band that holds all keys that the mask shows, and whether it holds no others."""
    seen: set[int] = set()
    beginnings = []
    for each in _conjuncts(mask.condition, not mask.seen):
        part = _Mask(each.condition, not each.seen)
        if (places := _places(part, axes.distance)) is None:
            beginnings.append(part)
        else:
            seen |= places
    if not seen:
        return Band(), False
    nearest, farthest = min(axes.distance.places), max(axes.distance.places)
    first, last = min(seen), max(seen)
    band = Band(first if first > nearest else None, last if last < farthest else None)
    exact = len(seen) == last - first + 1
    found = [_prefix(part, axes, band) for part in beginnings]
    keys = max((prefix for prefix, _ in found), default=0)
    # A shorter beginning is part of the longest.
    whole = not found or any(all_seen for prefix, all_seen in found if prefix == keys)
    if keys == axes.key.extent:
        return Band(), exact and whole
    band = band._replace(sinks=keys if band.first is not None else 0, prefix=keys if band.last is not None else 0)
    return band, exact and whole


def _prefix(mask: _Mask, axes: _Axes, band: Band) -> tuple[int, bool]:
    """How many keys at the beginning hold all that a condition of keys, or of keys and rows, shows, and whether all of
    them are seen, the rows that it leaves out seeing them by the band."""
    keys, rows, whole = set(range(axes.key.extent)), set(range(axes.row.extent)), True
    for part in _conjuncts(mask.condition, mask.seen):
        if (found := _places(part, axes.alone(axes.key))) is not None:
            keys &= found
        elif (found := _places(part, axes.alone(axes.row))) is not None:
            rows &= found
        else:
            whole = False
    prefix = max(keys, default=-1) + 1
    others = set(range(axes.row.extent)) - rows
    first, extent = band.first, axes.key.extent
    seen = all(band.reach(row, extent) >= prefix and (first is None or row + first <= 0) for row in others)
    return prefix, whole and seen and len(keys) == prefix


def _places(mask: _Mask, along: _Along) -> set[int] | None:
    """Where it shows keys; None where more than that number decides it."""
    holds = _by(mask.condition, along)
    return None if holds is None else {each for each in along.places if bool(holds(each)) is mask.seen}


def _by(node: Node, along: _Along) -> ByPlace | None:
    """A node by one number; None where anything else decides it."""
    if (index := _affine(node)) is not None:
        return along.line(index)
    if isinstance(node, Element):
        return _within(node, along) if node.kind == "within" else None
    if node.kind == "const":
        return lambda _, value=float(node.payload[0]): value  # type: ignore[misc]
    if node.op in _COMPARISONS:
        one, other = (_affine(each) for each in node.args)
        if one is not None and other is not None:
            return _composed(_OPERATORS[node.op], along.line(one - other), lambda _: 0)
    args = [_by(each, along) for each in node.args]
    if node.op == "cast":
        return args[0] if args[0] is not None and _survives(args[0], along) else None
    return _composed(_OPERATORS[node.op], *args) if node.op in _OPERATORS else None


def _composed(function: Callable[..., float], *args: ByPlace | None) -> ByPlace | None:
    known = [each for each in args if each is not None]
    return (lambda d: function(*(each(d) for each in known))) if len(known) == len(args) else None


def _survives(value: ByPlace, along: _Along) -> bool:
    return all(value(each) in _EXACT for each in along.places)


def _within(node: Element, along: _Along) -> ByPlace | None:
    place, extent = along.line(node.indices[0]), node.extent
    return _composed(lambda at: 0 <= at < extent, place)


def _line(index: Index, row: Axis, key: Axis) -> ByPlace | None:
    """An index that grows with the distance alone."""
    step = index.times(key)
    if step is None or index.times(row) != -step or len(index.terms) > 2:
        return None
    if step == 0 and index.terms:
        return None
    return lambda d: step * d + index.offset


def _straight(index: Index, axis: Axis) -> ByPlace | None:
    """An index that grows with one axis alone."""
    step = index.times(axis)
    return None if step is None or len(index.terms) > bool(step) else lambda at: step * at + index.offset


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
