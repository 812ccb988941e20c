"""Kernels over the same rows as one: each element is read once, held in registers, and what is made of it written once.

A softmax along channels, or a norm, is a kernel for each of its sums and one that writes. Here they are taken together
where a block's threads can hold the rows that they are at (`schedule/loops/held_shape.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from knowledge.compiler.emit.elements import ELEMENT_TYPES, REDUCERS
from knowledge.compiler.ir.cost import CALL, operations
from knowledge.compiler.ir.dtypes import BYTES, NARROW
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Axis, Index, along
from knowledge.compiler.ir.nodes import Element, Values, children, elements, reads
from knowledge.compiler.passes.common import Common, by_stride
from knowledge.compiler.passes.loops import Nest, Place, Total, count
from knowledge.compiler.problem import Device
from knowledge.compiler.schedule.loops.held_shape import Ask, Shape, packed

FEW = 8 << 10
"""Elements that one block goes over in a short time, with all kernels around them in its launch."""


@dataclass(frozen=True)
class Sweep:
    """All elements of the rows once: totals and stores of elements. Then `rows`: stores of a row's own."""

    totals: tuple[Total, ...] = ()
    stores: tuple[Place, ...] = ()
    rows: tuple[tuple[str, Place], ...] = ()


@dataclass(frozen=True)
class Rows:
    """Some nests as sweeps over the same rows: those at `places`, along `steps`, the fastest last.

    `wide` are the elements in memory that are read into registers, by their names there; `held` those computed that
    stay, each with its first sweep. `kept` are the tensors that need no memory.
    """

    numbers: tuple[int, ...]
    places: tuple[Axis, ...]
    steps: tuple[Axis, ...]
    sweeps: tuple[Sweep, ...]
    nest: Nest
    wide: tuple[tuple[str, Element], ...]
    held: Mapping[int, tuple[str, int, Node]]
    kept: frozenset[str]
    shape: Shape

    @property
    def along_steps(self) -> bool:
        """Whether neighbours in memory are of one row."""
        return self.shape.apart == 1


def _plain(nest: Nest) -> bool:
    return not (nest.scanned or nest.stepped or nest.sorts) and all(total.op in REDUCERS for total in nest.totals)


def _sums(nest: Nest) -> bool:
    return bool(nest.totals) and count(nest.reduced) > 1 and count(nest.axes) > 1


class Finder:
    """Looks for rows among a forward's nests. `alone` are nests, by number, that have a better kernel of their own."""

    def __init__(
        self, nests: Sequence[Nest], graph: Values, returned: Collection[str], alone: Collection[int], device: Device
    ) -> None:
        self.nests, self.graph, self.returned, self.alone, self.device = nests, graph, returned, alone, device

    def all(self) -> tuple[Rows, ...]:
        """Those that lie one behind the other, as many as may be in each."""
        found: list[Rows] = []
        at = 0
        while at < len(self.nests):
            made = self._from(at)
            found += [made] if made else []
            at = made.numbers[-1] + 1 if made else at + 1
        return tuple(found)

    def _from(self, first: int) -> Rows | None:
        """The rows that begin with a nest, its sums or what they are taken of."""
        anchor = first if self._may(first) and _sums(self.nests[first]) else first + 1
        ahead = self._may(first) and self._may(anchor) and _sums(self.nests[anchor])
        if not ahead:
            return None
        space = Common(anchor, self.nests[anchor])
        if not space.known or (anchor > first and not self._leads(space, first, anchor)):
            return None
        space.learn(anchor, self.nests[anchor])
        last = anchor
        while self._may(last + 1) and (more := self._followed(space, first, last + 1)):
            space, last = more, last + 1
        for end in range(last, anchor - 1, -1):
            if end > first and (made := _Writer(self, space, range(first, end + 1)).rows()) is not None:
                return made
        return None

    def _may(self, at: int) -> bool:
        return at < len(self.nests) and at not in self.alone and _plain(self.nests[at])

    def _leads(self, space: Common, first: int, anchor: int) -> bool:
        """Whether a nest makes all that the sums behind it are taken of."""
        stored = {store.tensor.name for store in self.nests[first].stores}
        used = {self.nests[anchor].tensor(read).name for read in reads(*self.nests[anchor].bodies)}
        if self.nests[first].totals or not stored & used & {*space.known} or not space.add(first, self.nests[first]):
            return False
        places = {store.tensor.name: space.moved(first, store.address) for store in self.nests[first].stores}
        if not self._own(space, anchor, places):
            return False
        space.learn(first, self.nests[first])
        return True

    def _own(self, space: Common, at: int, places: Mapping[str, Index]) -> bool:
        """Whether a nest reads what lies at some places where it was stored, only."""
        nest = self.nests[at]
        mine = ((nest.tensor(read).name, read) for read in reads(*nest.bodies))
        return all(
            not nest.guards(read) and space.moved(at, nest.address(read)) == places[name]
            for name, read in mine
            if name in places
        )

    def _followed(self, space: Common, first: int, at: int) -> Common | None:
        """The common loops with those of a nest that may come next; None where it may not."""
        nest, space = self.nests[at], space.copy()
        if not space.add(at, nest):
            return None
        before = self.nests[first:at]
        written = {store.tensor.name for each in before for store in each.stores}
        read = {each.tensor(node).name for each in (*before, nest) for node in reads(*each.bodies)}
        own = self._own(space, at, {name: space.known[name] for name in written})
        if not own or any(store.tensor.name in read | written for store in nest.stores):
            return None
        space.learn(at, nest)
        return space

    def needed(self, numbers: range) -> set[str]:
        """The tensors that others than these nests read."""
        others = [nest for at, nest in enumerate(self.nests) if at not in numbers]
        return {nest.tensor(read).name for nest in others for read in reads(*nest.bodies)} | {*self.returned}


class _Writer:
    """Writes a run of nests as sweeps."""

    def __init__(self, finder: Finder, space: Common, numbers: range) -> None:
        self.finder, self.space, self.numbers, self.graph = finder, space, numbers, finder.graph
        self.needed = finder.needed(numbers)
        self.wide: dict[tuple[str, Index], tuple[str, Element]] = {}
        self.made: dict[str, Node] = {}
        self.sweeps: list[Sweep] = []
        self.totals = 0
        self.in_memory: set[int] = set()

    def rows(self) -> Rows | None:
        """The rows; None where threads cannot hold them, or nothing would be read twice."""
        nests = self.finder.nests
        order = sorted(self.space.digits, key=self._stride, reverse=True)
        places: dict[Axis, Index] = {}
        kinds: dict[str, list[Axis]] = {"i": [], "r": []}
        for digit in order:
            kind = "r" if digit in self.space.steps else "i"
            kinds[kind].append(Axis(f"{kind}{len(kinds[kind])}", digit.extent))
            places[digit] = along(kinds[kind][-1])
        self.along_steps = bool(order) and order[-1] in self.space.steps
        self.row = "[0]" if self.along_steps else "[v]"
        self.moving = tuple(kinds["r"])
        for at in self.numbers:
            found = {axis: index.at(places, lambda data: data) for axis, index in self.space.found[at].items()}
            self._add(nests[at], found)
        stored = {store.tensor.name for at in self.numbers for store in nests[at].stores}
        held, arrays = self._held()
        whole = replace(
            nests[self.numbers[0]], axes=tuple(kinds["i"]), reduced=self.moving,
            totals=tuple(total for sweep in self.sweeps for total in sweep.totals),
            stores=tuple(each for sweep in self.sweeps for each in (*sweep.stores, *(place for _, place in sweep.rows)
                                                                    ) if each.tensor.name in self.needed),
        )  # fmt: skip
        swept = sum(bool(sweep.totals or sweep.stores) for sweep in self.sweeps)
        many = self.wide and swept > 1 and prod(digit.extent for digit in order) > FEW
        shape = self._shape(tuple(kinds["i"]), arrays) if many else None
        if shape is None:
            return None
        return Rows(
            tuple(self.numbers), tuple(kinds["i"]), self.moving, tuple(self.sweeps), whole, tuple(self.wide.values()),
            held, frozenset(stored - self.needed), shape,
        )  # fmt: skip

    def _stride(self, digit: Axis) -> int:
        """How far neighbours are apart in what is read most."""
        whole = [known for known in self.space.known.values() if len(known.terms) == len(self.space.digits)]
        return min(known.times(digit) or 0 for known in whole[:1])

    def _add(self, nest: Nest, found: Mapping[Axis, Index]) -> None:
        """A nest's sweep: what was stored before is in registers."""
        names: dict[str, str] = {}
        totals = []
        for total in nest.totals:
            names[total.name] = f"s{self.totals}"
            self.totals += 1
            body = self.graph.rewritten(total.body, found, lambda read: self._element(nest, read, {}))
            totals.append(replace(total, name=names[total.name], body=body))
        stores: list[Place] = []
        rows: list[tuple[str, Place]] = []
        for store in nest.stores:
            body = self.graph.rewritten(store.body, found, lambda read: self._element(nest, read, names))
            place = Place(store.tensor, store.address.at(found, lambda data: data), body)
            spans = any(place.address.uses(axis) for axis in self.moving)
            narrow = store.tensor.dtype in NARROW and body.op != "cast"
            rounded = self.graph.element("cast", store.tensor.dtype, body) if narrow else body
            if spans:
                self.made[store.tensor.name] = rounded
                self.in_memory.add(id(rounded))
                stores += [place] if store.tensor.name in self.needed else []
            else:
                name = f"u{sum(len(sweep.rows) for sweep in self.sweeps) + len(rows)}"
                self.made[store.tensor.name] = self.graph.total(f"{name}{self.row}", store.tensor.dtype)
                rows.append((name, replace(place, body=rounded)))
        if totals or stores or rows:
            self.sweeps.append(Sweep(tuple(totals), tuple(stores), tuple(rows)))

    def _element(self, nest: Nest, read: Element, names: Mapping[str, str]) -> Node:
        if read.kind == "total":
            return self.graph.total(f"{names[read.op]}{self.row}", read.dtype) if read.op in names else read
        tensor = nest.tensor(read)
        if tensor.name in self.made:
            return self.made[tensor.name]
        address = nest.address(read)
        over = {atom for _, atom in by_stride(address)}
        if nest.guards(read) or len(over) < len(self.space.digits):
            return read
        name, _ = self.wide.setdefault((tensor.name, address), (f"x{len(self.wide)}", read))
        text = f"{name}[k].lane[v]"
        kind = ELEMENT_TYPES[read.dtype]
        return self.graph.total(f"{kind}({text})" if tensor.dtype in NARROW else text, read.dtype)

    def _held(self) -> tuple[dict[int, tuple[str, int, Node]], int]:
        """What is computed in one sweep and used in another, and how many elements of each place live at once."""
        sites = [[*(t.body for t in sweep.totals), *(s.body for s in sweep.stores)] for sweep in self.sweeps]
        first: dict[int, int] = {}
        held: dict[int, tuple[str, int, Node]] = {}
        last: dict[str, int] = {}
        for at, roots in enumerate(sites):
            seen: set[int] = set()
            stack = [*roots]
            while stack:
                node = stack.pop()
                if id(node) in seen:
                    continue
                seen.add(id(node))
                if node.kind == "total" and node.op.split("[")[0].split("(")[-1] in {
                    name for name, _ in self.wide.values()
                }:
                    last[node.op] = at
                elif id(node) in first and first[id(node)] < at and self._stays(node):
                    name, _, _ = held.setdefault(id(node), (f"h{len(held)}", first[id(node)], node))
                    last[name] = at
                else:
                    stack.extend(children(node))
            for key in seen:
                first.setdefault(key, at)
        begun = {name: at for name, at, _ in held.values()}
        live = [sum(until > at and begun.get(name, 0) <= at for name, until in last.items())
                for at in range(len(sites))]  # fmt: skip
        return held, max(1, len(self.wide), *live)

    def _stays(self, node: Node) -> bool:
        """Whether to hold a number rather than to compute it again."""
        if node.kind != "compute" or node.uniform:
            return False
        own = any(each.kind == "total" and "[k]" in each.op for each in elements(node))
        return id(node) in self.in_memory or (own and operations(node) >= CALL)

    def _shape(self, places: tuple[Axis, ...], arrays: int) -> Shape | None:
        nest = self.finder.nests[self.numbers[0]]
        size = max(BYTES[nest.tensor(read).dtype] for _, read in self.wide.values())
        addresses = [nest.address(read) for _, read in self.wide.values()]
        addresses += [store.address for sweep in self.sweeps for store in sweep.stores]
        ask = Ask(self.along_steps, count(self.moving), count(places), size, arrays, self.finder.device)
        return ask.best(packed(addresses, (self.moving if self.along_steps else places)[-1], size))
