"""Sweeps: a source whose constants name the values to try, and the sources that each combination of them gives.

A model writes `constexpr int kTile = 128;  // sweep: 64, 128, 256`. What is built always stands alone: the values are
put in, and the comments are gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from harness.nouns.frozen import Frozen

MARK = "// sweep:"

_VALUE = r"-?(?:0[xX][0-9a-fA-F]+|\d+)|true|false"
_CONSTANT = re.compile(
    rf"(?P<head>.*?\b(?P<name>[A-Za-z_]\w*)\s*=\s*(?:(?:cute::)?(?:Int|C)<\s*)?)(?P<value>{_VALUE})(?P<tail>\s*>?(?:\{{\}})?\s*;)\s*"
)
_VALUES = re.compile(rf"\s*(?:{_VALUE})(?:\s*,\s*(?:{_VALUE}))*\s*")


RANKED = "Rank"
"""The constant that counts whole variants in the order in which whoever wrote the sweep expects them."""


class SweepError(ValueError):
    """A sweep that cannot be tried. The message tells the model what to do about it."""


class Parameter(Frozen):
    """A constant of the source: the line that defines it (from 1), and its values, the source's own first."""

    name: str
    line: int
    values: tuple[str, ...]


class Sweep(Frozen):
    """The constants to try and their values; at least one constant, each with at least two values."""

    parameters: tuple[Parameter, ...]

    @property
    def count(self) -> int:
        """Combinations of values."""
        return prod(len(parameter.values) for parameter in self.parameters)

    def points(self) -> Iterator[dict[str, str]]:
        """Every combination: a value for each constant. The first is what the source holds already."""
        for values in product(*(parameter.values for parameter in self.parameters)):
            yield {parameter.name: value for parameter, value in zip(self.parameters, values, strict=True)}

    def source(self, source: str, values: dict[str, str]) -> str:
        """`source`, as `read_sweep` gave it, with these values in the place of its own."""
        lines = source.split("\n")
        for parameter in self.parameters:
            match = constant(lines[parameter.line - 1])
            if match is None:
                raise ValueError(f"line {parameter.line} does not define {parameter.name}: it is another source")
            lines[parameter.line - 1] = f"{match['head']}{values[parameter.name]}{match['tail']}"
        return "\n".join(lines)


def read_sweep(source: str, most: int) -> tuple[str, Sweep | None]:
    """The source without its sweep comments, and what they declare; None where there are none.

    `most`: variants that may be tried, 1 for no sweep at all. Raises `SweepError`. A comment on a line of its own
    declares nothing.
    """
    lines = source.split("\n")
    found: list[Parameter] = []
    for index, line in enumerate(lines):
        code, mark, values = line.partition(MARK)
        if mark and code.strip() and not code.lstrip().startswith("//"):
            parameter, lines[index] = _parameter(code, values, index + 1)
            found.append(parameter)
    if not found:
        return source, None
    sweep = Sweep(parameters=tuple(found))
    _check(sweep, most)
    return "\n".join(lines), sweep


def say_values(values: dict[str, str]) -> str:
    """`kTile = 64, kStages = 2`."""
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def rank_correlation(timed: Sequence[tuple[dict[str, str], float]]) -> float | None:
    """Spearman's, of the order in which variants were expected and their times; 1 where the order was right.

    None where nobody expected one, or there are fewer than three: the constant `Rank` counts variants from the best on.
    """
    if len(timed) < 3 or any(values.keys() != {RANKED} for values, _ in timed):
        return None
    expected = [int(values[RANKED]) for values, _ in timed]
    apart = sum(
        (place - at) ** 2 for place, at in zip(_places(expected), _places([ms for _, ms in timed]), strict=True)
    )
    return 1 - 6 * apart / (len(timed) * (len(timed) ** 2 - 1))


def _places(values: Sequence[float]) -> list[int]:
    order = sorted(range(len(values)), key=lambda index: values[index])
    return [order.index(index) for index in range(len(values))]


def constant(code: str) -> re.Match[str] | None:
    """The groups head, name, value and tail of a line that defines a whole number or a truth value, else None."""
    return _CONSTANT.fullmatch(code)


def _parameter(code: str, values: str, line: int) -> tuple[Parameter, str]:
    match = constant(code)
    if match is None or not _VALUES.fullmatch(values):
        raise SweepError(
            f"Line {line} cannot be swept. Write the constant and its values on one line, as "
            f"`constexpr int kTile = 128;  {MARK} 64, 128, 256`: whole numbers, true or false."
        )
    named = (match["value"], *(value.strip() for value in values.split(",")))
    return (
        Parameter(name=match["name"], line=line, values=tuple(dict.fromkeys(named))),
        f"{match['head']}{match['value']}{match['tail']}",
    )


def _check(sweep: Sweep, most: int) -> None:
    names = [parameter.name for parameter in sweep.parameters]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SweepError(f"{twice} is swept on two lines. Name each constant's values once.")
    single = next((each for each in sweep.parameters if len(each.values) < 2), None)
    if single is not None:
        raise SweepError(f"{single.name} has no second value to try. Name more values, or leave its comment out.")
    if sweep.count > most:
        sizes = " x ".join(str(len(parameter.values)) for parameter in sweep.parameters)
        allowed = f"at most {most} are tried" if most > 1 else "this run tries none"
        raise SweepError(f"The sweep has {sizes} = {sweep.count} variants; {allowed}. Leave values out.")
