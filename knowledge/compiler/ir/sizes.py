"""Whole numbers that a kernel learns when it is called: the sizes of arguments that several shapes are to go through.

A `Size` is an int, so that everything which computes with shapes takes it. As an int it has a stand-in's value, a prime
that no other size has and no vector's length divides: what is decided by it is decided as for sizes of which nothing is
known. Beside that it is an expression, which arithmetic carries on, and which it is spelled as in C++.
"""

from __future__ import annotations

import re
from math import gcd
from typing import Final

STAND_INS: Final = (10007, 10103, 10211, 10301, 10427, 10513, 10607, 10709)
"""Primes: as many sizes may differ."""
FLOOR: Final = """\
// Quotient and remainder rounded down, as indices want them.
CUTE_HOST_DEVICE constexpr int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b && (a < 0) != (b < 0)); }
CUTE_HOST_DEVICE constexpr int64_t floor_mod(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }
"""
_NUMBER = re.compile(r"(?<![\w.])(\d{4,})(?:\.0f?)?(?![\w.])")
_NEAR = 64


class Size(int):
    """A size by its stand-in, spelled as a product of names, or as any other expression of them."""

    names: tuple[str, ...]
    times: int
    text: str

    @classmethod
    def named(cls, number: int) -> int:
        """The size of that number."""
        return _product(STAND_INS[number], 1, (f"n{number}",))

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def __hash__(self) -> int:
        return int.__hash__(self)

    def __eq__(self, other: object) -> bool:
        return int.__eq__(self, other) if isinstance(other, int) else NotImplemented

    def __mul__(self, other: int) -> int:
        if not isinstance(other, int):
            return NotImplemented
        value = int(self) * int(other)
        if not other:
            return 0
        times, names = _factors(other)
        if self.names and names is not None:
            return _product(value, self.times * times, (*self.names, *names))
        return self if other == 1 else _any(value, f"({self} * {other})")

    __rmul__ = __mul__

    def __neg__(self) -> int:
        return self * -1

    def __abs__(self) -> int:
        return self if int(self) >= 0 else -self

    def __add__(self, other: int) -> int:
        if not isinstance(other, int):
            return NotImplemented
        value = int(self) + int(other)
        if not other:
            return self
        if self.names and isinstance(other, Size) and other.names == self.names:
            return _product(value, self.times + other.times, self.names) if value else 0
        return _any(value, f"({self} + {other})".replace("+ -", "- ")) if value else 0

    __radd__ = __add__

    def __sub__(self, other: int) -> int:
        return self + -other if isinstance(other, int) else NotImplemented

    def __rsub__(self, other: int) -> int:
        return -self + other if isinstance(other, int) else NotImplemented

    def __floordiv__(self, other: int) -> int:
        exact = _quotient(self, other)
        return _any(int(self) // int(other), f"floor_div({self}, {other})") if exact is None else exact

    def __rfloordiv__(self, other: int) -> int:
        return _any(int(other) // int(self), f"floor_div({other}, {self})") if other else 0

    def __mod__(self, other: int) -> int:
        if _quotient(self, other) is not None:
            return 0
        # That a stand-in, one more or one less, happens to divide says nothing of the size.
        return _any(int(self) % int(other) or 1, f"floor_mod({self}, {other})")

    def __rmod__(self, other: int) -> int:
        return _any(int(other) % int(self), f"floor_mod({other}, {self})") if other else 0


def _product(value: int, times: int, names: tuple[str, ...]) -> int:
    if not names or not times:
        return times
    made = Size(value)
    made.names, made.times = tuple(sorted(names)), times
    text = " * ".join([*made.names, *([str(times)] if times != 1 else [])])
    made.text = text if len(made.names) == 1 and times == 1 else f"({text})"
    return made


def _any(value: int, text: str) -> Size:
    made = Size(value)
    made.names, made.times, made.text = (), 0, text
    return made


def _factors(number: int) -> tuple[int, tuple[str, ...] | None]:
    """A number as an integer times named sizes; None in their place where it is no such product."""
    if not isinstance(number, Size):
        return int(number), ()
    return (number.times, number.names) if number.names else (0, None)


def _quotient(size: Size, by: int) -> int | None:
    """What a product of sizes comes to without some of its factors; None where the division may leave something."""
    if by == 1:
        return size
    times, names = _factors(by)
    if not size.names or names is None or not times or size.times % times:
        return None
    rest = list(size.names)
    for name in names:
        if name not in rest:
            return None
        rest.remove(name)
    return _product(int(size) // int(by), size.times // times, tuple(rest))


def common_divisor(one: int, other: int) -> int:
    """As math.gcd, of what is known of sizes: the factors that both name."""
    if not isinstance(one, Size) and not isinstance(other, Size):
        return gcd(one, other)
    (times, names), (more, others) = _factors(one), _factors(other)
    if names is None or others is None:
        return 1
    left, shared = list(others), []
    for name in names:
        if name in left:
            left.remove(name)
            shared.append(name)
    value = gcd(times, more)
    for name in shared:
        value = value * STAND_INS[int(name[1:])]
    return _product(value, gcd(times, more), tuple(shared))


def real(number: float | int | str) -> float | int:
    """A number as a float; a size stays one, for it is spelled where it is used."""
    return number if isinstance(number, Size) else float(number)


def stands_in(source: str) -> bool:
    """Whether a kernel's text has a stand-in's value, or what was computed with one, in the place of a size."""
    found = {int(text) for text in _NUMBER.findall(source)}
    return any(min(number % each, -number % each) < _NEAR for number in found if number > 5000 for each in STAND_INS)
