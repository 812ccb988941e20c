"""Regions in a row as one, where the playbook writes all of them: one task, build and verdict instead of many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graph.model.partition import COMPILER, LEAST_GAIN, Region, kind_of
from graph.model.window import Window
from graph.model.writers import Writers
from harness.nouns.aten import FREE

MOST_JOINED = 12
"""Regions in one source: each takes nvcc seconds."""
MOST_TRIED = 4
"""Pieces of a row that the playbook is asked for, the best first."""

Run = tuple[Region, ...]


def joined(regions: Sequence[Region], writers: Writers) -> tuple[Region, ...]:
    """The regions with those in a row taken together, as many as most of the model is made of.

    A row that the model repeats stays one row, so that its kernels serve every place of it.
    """
    return tuple(each for row in _rows(regions, writers) for each in _in_pieces(row, writers))


def _rows(regions: Sequence[Region], writers: Writers) -> Iterator[Run]:
    """Regions that follow one another without anything between that nobody may write."""
    row: Run = ()
    for region in regions:
        if row and not _follows(row[-1], region, writers):
            yield row
            row = ()
        row += (region,)
    if row:
        yield row


def _follows(one: Region, other: Region, writers: Writers) -> bool:
    part = one.window.part
    if part is not other.window.part or not _of_one_hand(one.recipe, other.recipe, writers):
        return False
    return all(
        each.name in FREE and not each.hindrance for each in part.operations[one.window.end : other.window.start]
    )


def _of_one_hand(one: str, other: str, writers: Writers) -> bool:
    """Whether recipes for single kernels write both, or the compiler does."""
    return one == other == COMPILER or (writers.single(one) and writers.single(other))


def _in_pieces(row: Run, writers: Writers) -> Run:
    """The row with its best repeated piece joined wherever it stands, and what is left of it likewise."""
    for length, starts in _pieces(row):
        found = {start: _whole(row[start : start + length], writers) for start in starts}
        whole = [each for each in found.values() if each is not None]
        if len(whole) == len(found) and len({each.window.digest for each in whole}) == 1:
            return _around(row, length, {start: each for start, each in found.items() if each}, writers)
    return row


def _around(row: Run, length: int, found: dict[int, Region], writers: Writers) -> Run:
    ends = [0, *(start + length for start in found)]
    made: Run = ()
    for before, start in zip(ends, [*found, len(row)], strict=True):
        made += _in_pieces(row[before:start], writers) if start > before else ()
        made += (found[start],) if start in found else ()
    return made


def _pieces(row: Run) -> list[tuple[int, list[int]]]:
    """Lengths and starts of what may be joined: first what covers most of the row, of those the shortest."""
    names = tuple(region.window.digest for region in row)
    lengths = range(2, min(len(row), MOST_JOINED) + 1)
    pieces = {names[start : start + length] for length in lengths for start in range(len(row) - length + 1)}
    found = [(len(piece), _places(names, piece)) for piece in pieces]
    found.sort(key=lambda piece: (-piece[0] * len(piece[1]), piece[0], piece[1]))
    return found[:MOST_TRIED]


def _places(names: tuple[str, ...], piece: tuple[str, ...]) -> list[int]:
    """Where a piece stands, none over another."""
    found: list[int] = []
    for start in range(len(names) - len(piece) + 1):
        if names[start : start + len(piece)] == piece and (not found or start >= found[-1] + len(piece)):
            found.append(start)
    return found


def _whole(regions: Run, writers: Writers) -> Region | None:
    """The regions as one, where they hang together and whoever writes each writes all of them.

    What the compiler has written together must be worth it by its estimate, as each of them was.
    """
    window = Window(regions[0].window.part, regions[0].window.start, regions[-1].window.end)
    if not window.connected:
        return None
    if regions[0].recipe == COMPILER:
        recipe = COMPILER if writers.gain_ms(window) > LEAST_GAIN * window.ms else ""
    else:
        recipe = writers.stages(window)
    return Region(window, kind_of(window.operations), recipe) if recipe else None
