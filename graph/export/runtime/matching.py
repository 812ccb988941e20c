"""Where a graph of aten operations computes what a kernel does, and the kernel's operator in the place of that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from .tracing import GETITEM, arguments, is_barrier, is_view, results_of, stretches

Found = dict[torch.fx.Node, torch.fx.Node]
"""The node of a graph for each node of a pattern."""


@dataclass(frozen=True)
class Pattern:
    """What a kernel of this `name` computes; its placeholders are the arguments of `operator`, in order."""

    name: str
    operator: Any
    graph: torch.fx.Graph

    @cached_property
    def given(self) -> list[torch.fx.Node]:
        """The placeholders."""
        return list(self.graph.find_nodes(op="placeholder"))

    @cached_property
    def results(self) -> list[torch.fx.Node]:
        """One for each result of the operator."""
        return results_of(self.graph)

    @cached_property
    def size(self) -> int:
        """How many operations it has that are no views."""
        return sum(node.op == "call_function" and not is_view(node) for node in self.graph.nodes)

    @property
    def hindrance(self) -> str:
        """Why nothing can be found by it, as the end of a sentence; empty where it can."""
        if not all(isinstance(each, torch.fx.Node) and each.op == "call_function" for each in self.results):
            return "it returns something that it does not compute"
        if self.graph.find_nodes(op="get_attr"):
            return "it computes with constants of its own"
        if not all(each.users for each in self.given):
            return "it is given something that it does not read"
        return ""


def replace(graph: torch.fx.Graph, patterns: Sequence[Pattern]) -> list[str]:
    """Put each pattern's operator where the graph computes the same, larger patterns first: the name of each used."""
    used: list[str] = []
    for pattern in sorted(patterns, key=lambda each: -each.size):
        anchor = pattern.results[-1]
        for node in list(graph.nodes):
            if node.op == anchor.op and node.target == anchor.target and node.users:
                found = _Search(graph, pattern).at(node)
                if found is not None:
                    _put(graph, pattern, found)
                    used.append(pattern.name)
    return used


class _Search:
    def __init__(self, graph: torch.fx.Graph, pattern: Pattern) -> None:
        self._graph, self._pattern = graph, pattern

    def at(self, node: torch.fx.Node) -> Found | None:
        """The pattern where its last result is this node."""
        results = self._pattern.results
        return next((each for each in self._from({}, results[-1], node, results[:-1]) if self._holds(each)), None)

    def _from(self, known: Found, wanted: Any, node: torch.fx.Node, others: Sequence[Any]) -> Iterator[Found]:
        found = _unified(known, wanted, node)
        if found is None:
            return
        rest = [each for each in others if each not in found]
        if not rest:
            yield found
            return
        for candidate in self._graph.find_nodes(op=rest[-1].op, target=rest[-1].target):
            if candidate.users:
                yield from self._from(found, rest[-1], candidate, rest[:-1])

    def _holds(self, found: Found) -> bool:
        """Whether the operator can take the place of these nodes."""
        own = {node for each, node in found.items() if each.op == "call_function"}
        results = {found[each] for each in self._pattern.results}
        given = [found[each] for each in self._pattern.given]
        stretch = stretches(self._graph)
        if len({stretch[node] for node in own}) > 1:
            return False
        outside = (node for node in own - results if any(user not in own for user in node.users))
        if not all(map(is_view, outside)):
            return False
        if any(_same_memory(result, each) for result in results for each in given):
            return False
        return not _reaches(given, results)


def _unified(known: Found, wanted: Any, node: Any) -> Found | None:
    """What is known with this node in the place of the pattern's, and everything before them; None if they differ."""
    found, pending = dict(known), [(wanted, node)]
    while pending:
        mine, theirs = pending.pop()
        if isinstance(mine, torch.fx.Node):
            if mine in found and found[mine] is theirs:
                continue
            if mine in found or not _alike(mine, theirs):
                return None
            found[mine] = theirs
            pending.append((_read(mine), [] if mine.op == "placeholder" else _read(theirs)))
        elif not isinstance(mine, (list, tuple)):
            if not _equal(mine, theirs):
                return None
        elif not isinstance(theirs, (list, tuple)) or len(mine) != len(theirs):
            return None
        else:
            pending += zip(mine, theirs, strict=True)
    return found


def _read(node: torch.fx.Node) -> list[Any]:
    return arguments(node) if node.op == "call_function" else []


def _alike(mine: torch.fx.Node, theirs: Any) -> bool:
    """Whether both are the same operation, or the first a placeholder, of one type, shape and layout, all known."""
    if not isinstance(theirs, torch.fx.Node):
        return False
    if mine.op != "placeholder" and (mine.op != theirs.op or mine.target != theirs.target):
        return False
    pairs = list(zip(_values(mine), _values(theirs), strict=False))
    return len(_values(mine)) == len(_values(theirs)) and all(_one_kind(*each) for each in pairs)


def _values(node: torch.fx.Node) -> list[Any]:
    value = node.meta.get("val")
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _one_kind(mine: Any, theirs: Any) -> bool:
    if not isinstance(mine, torch.Tensor) or not isinstance(theirs, torch.Tensor):
        return type(mine) is type(theirs)
    numbers = (*theirs.shape, *theirs.stride())
    return (
        mine.dtype == theirs.dtype
        and mine.device.type == theirs.device.type
        and all(type(each) is int for each in numbers)
        and (*mine.shape, *mine.stride()) == numbers
    )


def _equal(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, torch.device) and isinstance(theirs, torch.device):
        return mine.type == theirs.type
    return type(mine) is type(theirs) and (mine == theirs or (mine != mine and theirs != theirs))


def _same_memory(one: torch.fx.Node, other: torch.fx.Node) -> bool:
    a, b = one.meta.get("val"), other.meta.get("val")
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        return False
    return bool(a.untyped_storage()._cdata == b.untyped_storage()._cdata)


def _reaches(nodes: Sequence[torch.fx.Node], results: set[torch.fx.Node]) -> bool:
    """Whether one of the nodes is computed from one of the results."""
    pending, seen = list(nodes), set(nodes)
    while pending:
        node = pending.pop()
        if node in results:
            return True
        fresh = [each for each in node.all_input_nodes if each not in seen]
        seen.update(fresh)
        pending += fresh
    return False


def _put(graph: torch.fx.Graph, pattern: Pattern, found: Found) -> None:
    """The operator behind the last of its arguments; who uses its results moves behind it."""
    place = {node: k for k, node in enumerate(graph.nodes)}
    given = [found[each] for each in pattern.given]
    results = [found[each] for each in pattern.results]
    first = max((*given, results[0]), key=lambda node: place[node])
    with graph.inserting_after(first):
        call = graph.call_function(pattern.operator, tuple(given))
    call.meta = {key: value for key, value in results[0].meta.items() if key != "val"}
    values = [each.meta["val"] for each in results]
    call.meta["val"] = values[0] if len(values) == 1 else tuple(values)
    fresh, last = [call], call
    if len(results) > 1:
        fresh = []
        for k, result in enumerate(results):
            with graph.inserting_after(last):
                last = graph.call_function(GETITEM, (call, k))
            last.meta = dict(result.meta)
            fresh.append(last)
    for old, new in zip(results, fresh, strict=True):
        old.replace_all_uses_with(new)
    _sort(graph)
    graph.eliminate_dead_code()


def _sort(graph: torch.fx.Graph) -> None:
    """Every value before its uses, with as little moved as that takes."""
    stretch: list[torch.fx.Node] = []
    ordered: list[torch.fx.Node] = []
    done: set[torch.fx.Node] = set()
    for node in [*graph.nodes]:
        stretch.append(node)
        if node.op == "output" or is_barrier(node):
            _settle(stretch, ordered, done)
            stretch = []
    anchor = graph._root
    for node in ordered:
        anchor.append(node)
        anchor = node


def _settle(stretch: list[torch.fx.Node], ordered: list[torch.fx.Node], done: set[torch.fx.Node]) -> None:
    waiting = stretch
    while waiting:
        later = []
        for node in waiting:
            if done.issuperset(node.all_input_nodes):
                ordered.append(node)
                done.add(node)
            else:
                later.append(node)
        if len(later) == len(waiting):
            raise RuntimeError("a graph's operations need one another")
        waiting = later
