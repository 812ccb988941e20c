"""Index maps: sums of axes times whole numbers, with floor division and remainder where a reshape needs them.

Whatever a view, a broadcast, a window, a flip or a reshape does is an `Index` a dimension over the axes of a loop nest.
They simplify as they are made, from the axes' extents: reshaping there and back leaves the axes themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.sizes import common_divisor

# Wider than any tensor's extent: what is known of a number that the kernel computes.
UNKNOWN = 1 << 62


@dataclass(frozen=True)
class Axis:
    """A loop of `extent` steps. "i0", "i1", ... run over a result's dimensions, "r0", ... over what is reduced."""

    name: str
    extent: int

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value."""
        return 0, max(self.extent - 1, 0)


@dataclass(frozen=True)
class Quotient:
    """`of` divided by `by`, rounded down."""

    of: Index
    by: int

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value."""
        low, high = self.of.bounds
        return low // self.by, high // self.by


@dataclass(frozen=True)
class Remainder:
    """What is left of `of` after the division by `by`: 0 to by - 1."""

    of: Index
    by: int

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value."""
        return 0, self.by - 1


@dataclass(frozen=True)
class Data:
    """A whole number that the kernel computes: `value` is an element of type int64."""

    value: Node

    @property
    def bounds(self) -> tuple[int, int]:
        """Nothing is known of it."""
        return -UNKNOWN, UNKNOWN


Atom = Axis | Quotient | Remainder | Data


@dataclass(frozen=True)
class Index:
    """The sum of `terms`, each an atom times a whole number other than 0, and of `offset`."""

    terms: tuple[tuple[Atom, int], ...] = ()
    offset: int = 0

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value that it can have."""
        low = high = self.offset
        for atom, times in self.terms:
            ends = sorted(times * end for end in atom.bounds)
            low, high = low + ends[0], high + ends[1]
        return low, high

    def within(self, extent: int) -> bool:
        """Whether it is always 0 to extent - 1."""
        low, high = self.bounds
        return low >= 0 and high < extent

    @property
    def alone(self) -> Axis | None:
        """The axis that it is, once and with nothing added; None for anything else."""
        (atom, times), *more = self.terms or ((None, 0),)
        return atom if isinstance(atom, Axis) and times == 1 and not more and not self.offset else None

    def __add__(self, other: Index | int) -> Index:
        added = number(other) if isinstance(other, int) else other
        return _sum((*self.terms, *added.terms), self.offset + added.offset)

    def __mul__(self, times: int) -> Index:
        return _sum(((atom, have * times) for atom, have in self.terms), self.offset * times)

    def __sub__(self, other: Index | int) -> Index:
        return self + other * -1

    def __floordiv__(self, by: int) -> Index:
        return self._divided(by)[0]

    def __mod__(self, by: int) -> Index:
        return self._divided(by)[1]

    def _divided(self, by: int) -> tuple[Index, Index]:
        """Quotient and remainder."""
        whole = _sum(((atom, times // by) for atom, times in self.terms if times % by == 0), self.offset // by)
        rest = _sum(((atom, times) for atom, times in self.terms if times % by), self.offset % by)
        low, high = rest.bounds
        if low // by == high // by:
            return whole + low // by, rest - low // by * by
        for step in sorted({common_divisor(by, times) for _, times in rest.terms} - {1}, reverse=True):
            # (step a + b) // by where b never fills a step: (a + what b fills) // (by / step).
            coarse = Index(tuple((atom, times) for atom, times in rest.terms if times % step == 0))
            fine = rest - coarse
            low, high = fine.bounds
            if low // step == high // step:
                steps = _exact(coarse, step) + low // step
                over, left = steps._divided(by // step) if by != step else (steps, number(0))
                return whole + over, left * step + fine - low // step * step
        over, left = _cut(rest, by)
        return whole + over, left

    def atoms(self) -> Iterator[Atom]:
        """Every atom in it, those of quotients and remainders too."""
        for atom, _ in self.terms:
            yield atom
            if isinstance(atom, Quotient | Remainder):
                yield from atom.of.atoms()

    def uses(self, axis: Axis) -> bool:
        """Whether the axis is in it. What a computed number hangs on is not looked at."""
        return any(atom == axis for atom in self.atoms())

    def times(self, axis: Axis) -> int | None:
        """What one step of the axis adds; None where that is not always the same."""
        if any(isinstance(atom, Quotient | Remainder) and atom.of.uses(axis) for atom, _ in self.terms):
            return None
        return sum(times for atom, times in self.terms if atom == axis)

    def at(self, places: Mapping[Axis, Index], data: Callable[[Node], Node]) -> Index:
        """With every axis replaced by its place, and every computed number by what `data` makes of it."""
        result = number(self.offset)
        for atom, times in self.terms:
            result = result + _placed(atom, places, data) * times
        return result


def _exact(index: Index, by: int) -> Index:
    return Index(tuple((atom, times // by) for atom, times in index.terms), index.offset // by)


def _cut(rest: Index, by: int) -> tuple[Index, Index]:
    """Quotient and remainder as atoms of their own, what is divided twice divided once."""
    (atom, times), *more = rest.terms
    alone = not more and times == 1 and not rest.offset
    if alone and isinstance(atom, Quotient):
        return atom.of // (atom.by * by), Index(((Remainder(rest, by), 1),))
    if alone and isinstance(atom, Remainder) and atom.by % by == 0:
        return atom.of // by % (atom.by // by), atom.of % by
    return Index(((Quotient(rest, by), 1),)), Index(((Remainder(rest, by), 1),))


def _placed(atom: Atom, places: Mapping[Axis, Index], data: Callable[[Node], Node]) -> Index:
    if isinstance(atom, Axis):
        return places.get(atom, along(atom))
    if isinstance(atom, Quotient):
        return atom.of.at(places, data) // atom.by
    if isinstance(atom, Remainder):
        return atom.of.at(places, data) % atom.by
    return computed(data(atom.value))


def number(value: int) -> Index:
    """A whole number."""
    return Index((), value)


def along(axis: Axis) -> Index:
    """The axis itself."""
    return Index(((axis, 1),)) if axis.extent != 1 else number(0)


def computed(value: Node) -> Index:
    """A number that the kernel computes."""
    return Index(((Data(value), 1),))


def _sum(terms: Iterable[tuple[Atom, int]], offset: int) -> Index:
    """Equal atoms together, and a quotient times its divisor plus the remainder as what was divided."""
    total: dict[Atom, int] = {}
    for atom, times in terms:
        total[atom] = total.get(atom, 0) + times
    for atom in list(total):
        if isinstance(atom, Remainder) and total[atom]:
            # x = by * (x // by) + x % by
            whole, times = atom.of // atom.by, total[atom]
            quotient = whole.terms[0][0] if whole.terms else atom
            alone = whole == Index(((quotient, 1),))
            if alone and total.get(quotient) == times * atom.by:
                del total[quotient], total[atom]
                return _sum(
                    (*total.items(), *((each, have * times) for each, have in atom.of.terms)),
                    offset + atom.of.offset * times,
                )
    kept = sorted(((atom, times) for atom, times in total.items() if times), key=_order)
    return Index(tuple(kept), offset)


def _order(term: tuple[Atom, int]) -> tuple[int, str]:
    """Axes by name, then the others as they came."""
    return (0, term[0].name) if isinstance(term[0], Axis) else (1, "")


def axes(letter: str, shape: Iterable[int]) -> tuple[Axis, ...]:
    """One axis an extent."""
    return tuple(Axis(f"{letter}{position}", extent) for position, extent in enumerate(shape))


def places(shape: Iterable[int]) -> tuple[Index, ...]:
    """Where an element of a result is: the axes of its shape."""
    return tuple(map(along, axes("i", shape)))


def linear(indices: Iterable[Index], strides: Iterable[int]) -> Index:
    """The place in memory, in elements."""
    result = number(0)
    for index, step in zip(indices, strides, strict=True):
        result = result + index * step
    return result


def unravelled(place: Index, shape: tuple[int, ...]) -> tuple[Index, ...]:
    """The coordinates of an element of a row-major tensor from its place."""
    result: list[Index] = []
    step = 1
    for position, extent in reversed(list(enumerate(shape))):
        index = place // step
        result.append(index % extent if position and extent else index if extent else number(0))
        step *= max(extent, 1)
    return tuple(reversed(result))
