"""Loops over elements, split where a reshape runs over them, until what they address is a sum of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import gcd

from knowledge.compiler.index import Axis, Index, Quotient, Remainder, along
from knowledge.compiler.nodes import Values
from knowledge.playbook.expressions import Node, UnwritableError


@dataclass(frozen=True)
class Loops:
    """Groups of loops, and the indices and elements over them. A loop may be in several groups."""

    groups: tuple[tuple[Axis, ...], ...]
    indices: tuple[Index, ...]
    nodes: tuple[Node, ...]

    def split(self, graph: Values, addresses: Callable[[Loops], Iterable[Index]]) -> Loops:
        """With all loops split that are under a quotient or a remainder of `addresses`, as long as that helps.

        Raises `UnwritableError` where one is cut into pieces of different sizes.
        """
        made = self
        while cut := next(_cuts(addresses(made)), None):
            made = made._halved(graph, *cut)
        return made

    def _halved(self, graph: Values, axis: Axis, by: int) -> Loops:
        """With one loop as two, the inner one of `by` steps."""
        if axis.extent % by:
            raise UnwritableError("a reshape cuts a dimension unevenly")
        known = {each.name for group in self.groups for each in group}
        name = axis.name + "p" * sum(each.startswith(axis.name) for each in known)
        outer, inner = Axis(axis.name, axis.extent // by), Axis(name, by)
        places = {axis: along(outer) * by + along(inner)}
        return Loops(
            tuple(
                tuple(new for old in group for new in ((outer, inner) if old == axis else (old,)))
                for group in self.groups
            ),
            tuple(index.at(places, lambda data: data) for index in self.indices),
            tuple(graph.rewritten(node, places, lambda read: read) for node in self.nodes),
        )


def _cuts(addresses: Iterable[Index]) -> Iterator[tuple[Axis, int]]:
    """Loops under a quotient or a remainder, each with what it has to be split by."""
    for index in addresses:
        for atom in index.atoms():
            if not isinstance(atom, Quotient | Remainder):
                continue
            for axis, times in atom.of.terms:
                by = atom.by // gcd(atom.by, times)
                if isinstance(axis, Axis) and 1 < by < axis.extent:
                    yield axis, by
