"""The same loops in several nests: an operand's strides say how those of one are those of another, split and merged.

(512, 16384) and (32, 64, 4096) over the same elements are both (32, 16, 4, 4096).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import copy

from knowledge.compiler.ir.index import Axis, Index, along, number
from knowledge.compiler.ir.nodes import reads
from knowledge.compiler.passes.loops import Nest


class Common:
    """Loops that nests have in common, which `steps` sum over.

    `known` are addresses over them by tensor, `found` the loops of each nest, by its number.
    """

    def __init__(self, anchor: int, nest: Nest) -> None:
        self.loops = {axis: Axis(f"c{at}", axis.extent) for at, axis in enumerate(loops_of(nest))}
        self.steps = {self.loops[axis] for axis in nest.reduced if axis.extent > 1}
        self.digits = list(self.loops.values())
        self.found: dict[int, dict[Axis, Index]] = {anchor: self._whole(nest, self.loops)}
        self.known: dict[str, Index] = {}
        for tensor, address in spanning(nest, loops_of(nest)):
            self.known.setdefault(tensor, self.moved(anchor, address))

    def copy(self) -> Common:
        """Another one, which may be split without this one."""
        made = copy(self)
        made.found, made.known = {**self.found}, {**self.known}
        return made

    @staticmethod
    def _whole(nest: Nest, loops: Mapping[Axis, Axis]) -> dict[Axis, Index]:
        single = {axis: number(0) for axis in (*nest.axes, *nest.reduced) if axis.extent == 1}
        return single | {axis: along(loop) for axis, loop in loops.items()}

    def moved(self, nest: int, address: Index) -> Index:
        """A nest's address over the common loops."""
        return address.at(self.found[nest], lambda data: data)

    def rows(self, places: Iterable[Axis]) -> bool:
        """Whether these are all loops that are not steps."""
        return {*places} == {*self.digits} - self.steps

    def add(self, at: int, nest: Nest) -> bool:
        """Find the nest's loops among the common ones, which may be split for it."""
        for tensor, address in spanning(nest, loops_of(nest)):
            if tensor in self.known and (found := self._paired(self.known[tensor], address)) is not None:
                self.found[at] = self._whole(nest, {}) | found
                over = {axis: {atom for atom in index.atoms() if isinstance(atom, Axis)}
                        for axis, index in found.items()}  # fmt: skip
                free = set[Axis]().union(*(over[axis] for axis in nest.axes if axis in over))
                summed = set[Axis]().union(*(over[axis] for axis in nest.reduced if axis in over))
                if nest.totals:
                    return summed == self.steps and self.rows(free)
                return free == {*self.digits} or self.rows(free)
        return False

    def learn(self, at: int, nest: Nest) -> None:
        """Where the nest stores and reads."""
        for tensor, address in spanning(nest, loops_of(nest)):
            self.known.setdefault(tensor, self.moved(at, address))
        for store in nest.stores:
            self.known[store.tensor.name] = self.moved(at, store.address)

    def _paired(self, known: Index, address: Index) -> dict[Axis, Index] | None:
        """The axes of an address as the common loops of one that is the same."""
        mine, theirs = by_stride(known), by_stride(address)
        if known.offset != address.offset or not mine or not theirs:
            return None
        parts: dict[Axis, Index] = {}
        digits: dict[Axis, Index] = {}
        pieces: dict[Axis, list[Axis]] = {}
        (step, loop), (by, axis) = mine.pop(), theirs.pop()
        left, rest, done, gone = loop.extent, axis.extent, 1, 1
        while True:
            size = min(left, rest)
            if step != by or left % size or rest % size:
                return None
            piece = loop if size == loop.extent else Axis(f"{loop.name}_{len(pieces.get(loop, ()))}", size)
            pieces.setdefault(loop, []).append(piece)
            digits[loop] = digits.get(loop, number(0)) + along(piece) * done
            parts[axis] = parts.get(axis, number(0)) + along(piece) * gone
            left, rest, done, gone = left // size, rest // size, done * size, gone * size
            step, by = step * size, by * size
            if left == 1 and rest == 1 and not mine and not theirs:
                break
            if (left == 1 and not mine) or (rest == 1 and not theirs):
                return None
            if left == 1:
                (step, loop), done = mine.pop(), 1
                left = loop.extent
            if rest == 1:
                (by, axis), gone = theirs.pop(), 1
                rest = axis.extent
        self._split({loop: digits[loop] for loop, made in pieces.items() if len(made) > 1}, pieces)
        return parts

    def _split(self, places: Mapping[Axis, Index], pieces: Mapping[Axis, list[Axis]]) -> None:
        def at(index: Index) -> Index:
            return index.at(places, lambda data: data)

        self.found = {nest: {axis: at(index) for axis, index in each.items()} for nest, each in self.found.items()}
        self.known = {tensor: at(address) for tensor, address in self.known.items()}
        self.digits = [piece for loop in self.digits for piece in (pieces[loop] if loop in places else [loop])]
        self.steps = {piece for loop in self.steps for piece in (pieces[loop] if loop in places else [loop])}


def loops_of(nest: Nest) -> list[Axis]:
    """All loops of more than one step."""
    return [axis for axis in (*nest.axes, *nest.reduced) if axis.extent > 1]


def by_stride(address: Index) -> list[tuple[int, Axis]]:
    """The axes of an address, the fastest last; none where it is no sum of axes."""
    terms = [(times, atom) for atom, times in address.terms if isinstance(atom, Axis) and times > 0]
    return sorted(terms, key=lambda term: -term[0]) if len(terms) == len(address.terms) else []


def spanning(nest: Nest, loops: Collection[Axis]) -> Iterator[tuple[str, Index]]:
    """Where a nest's reads and stores lie that are at another place at each step of its loops."""
    whole = [(nest.tensor(read).name, nest.address(read)) for read in reads(*nest.bodies) if not nest.guards(read)]
    for name, address in (*whole, *((store.tensor.name, store.address) for store in nest.stores)):
        if {atom for _, atom in by_stride(address)} == {*loops}:
            yield name, address
