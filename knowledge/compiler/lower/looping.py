"""Loops over time as values: a region for what needs the step before it, and what does not, for all steps at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import Axis, Index, along, axes, places
from knowledge.compiler.ir.nodes import Carried, Element, Region, Value, Values, elements, reads, values
from knowledge.compiler.lower.rolling import Loop, Moving
from knowledge.compiler.problem import Argument, Op, Ref

if TYPE_CHECKING:
    from knowledge.compiler.lower.lowering import Lowering


def looped(state: Lowering, loop: Loop, apply: Callable[[Lowering, Op], None]) -> None:
    """Gives the names that a loop shows their values. `apply` lowers one operation."""
    graph = state.graph
    axis = Axis(f"step{len(state.loops)}", loop.count)
    state.loops.append(axis)
    inside = _inside(state, loop, axis)
    before = {}
    for each in loop.carried:
        traced = inside.traced[each.first]
        before[each.name] = graph.value("source", f"{axis.name} {each.name}", traced.dtype, traced.shape)
        inside.values[each.name], inside.traced[each.name] = before[each.name], traced
    for op in loop.ops:
        moving = loop.moving.get(op.results[0].name) if op.results else None
        if moving is None:
            apply(inside, op)
        else:
            inside.values[op.results[0].name] = _moved(inside, op, moving, axis)
            inside.traced[op.results[0].name] = op.results[0]
    made = {name: _whole(graph, inside, name) for name in dict.fromkeys(
        (*(each.after for each in loop.carried), *(name for name, _ in loop.shows.values())))}  # fmt: skip
    firsts = {each.name: graph.spread(state.cast(state.value(Ref(ref=each.first)), before[each.name].dtype),
                                      before[each.name].shape) for each in loop.carried}  # fmt: skip
    carried = [(before[each.name], firsts[each.name], made[each.after]) for each in loop.carried]
    shown = {name for name, _ in loop.shows.values()}
    steps = _Split(graph, axis, carried).results({name: made[name] for name in shown})
    state.steps |= {name: (steps[of], step) for name, (of, step) in loop.shows.items()}
    state.traced |= {name: inside.traced[of] for name, (of, _) in loop.shows.items()}


def _inside(state: Lowering, loop: Loop, axis: Axis) -> Lowering:
    """The values around a loop, and what it takes of them at every step."""
    made = replace(state, values=dict(state.values), roots=dict(state.roots), changed=dict(state.changed),
                   traced=dict(state.traced), unmade=dict(state.unmade))  # fmt: skip
    for each in loop.taken:
        at = _at(each.place, axis)
        if each.of is None:
            of, _ = state.steps[each.first]
            made.values[each.name] = state.graph.map(of.shape[1:], state.graph.read(of, (at, *places(of.shape[1:]))))
            made.traced[each.name] = state.traced[each.first]
        else:
            made.values[each.name] = _part(state.graph, state.value(each.of.args[0]), each.of, at)
            made.traced[each.name] = each.of.results[0]
    return made


def _at(place: Moving, axis: Axis) -> Index:
    return along(axis) * place.by + place.first


def _part(graph: Values, node: Node, op: Op, at: Index) -> Node:
    """The part of an operand at a moving place among those that it is unbound or split into."""
    place = 1 if op.target == "aten.unbind.int" else 2
    dim, shape = _integer(op.args[place]) if len(op.args) > place else 0, op.results[0].shape
    if node.uniform:
        return node
    here = list(places(shape))
    dim %= len(node.shape)
    if place == 1:
        here.insert(dim, at)
    else:
        here[dim] = here[dim] + at * shape[dim]
    return graph.map(shape, graph.read(node, tuple(here)))


def _moved(inside: Lowering, op: Op, moving: Mapping[int, Moving], axis: Axis) -> Node:
    """A select, or a slice, whose place moves."""
    graph, node, shape = inside.graph, inside.value(op.args[0]), op.results[0].shape
    if node.uniform:
        return node
    dim = (_integer(op.args[1]) if len(op.args) > 1 else 0) % len(node.shape)
    first, by = moving.get(2, Moving(0, 0))
    at = _at(Moving(first + node.shape[dim] * (first < 0), by), axis)
    here = list(places(shape))
    if op.target == "aten.select.int":
        here.insert(dim, at)
    else:
        here[dim] = here[dim] * (_integer(op.args[4]) if len(op.args) > 4 else 1) + at
    if not here[dim].within(node.shape[dim]):
        raise UnwritableError(f"{op.target} beyond {node.shape[dim]} elements in a loop over steps")
    return graph.map(shape, graph.read(node, tuple(here)))


def _integer(argument: Argument) -> int:
    return argument if isinstance(argument, int) else 0


def _whole(graph: Values, inside: Lowering, name: str) -> Value:
    """A step's value as one that the step makes."""
    node, shape = inside.value(Ref(ref=name)), inside.traced[name].shape
    if isinstance(node, Value) and node.kind != "source" and node.shape == shape:
        return node
    return graph.map(shape, graph.spread(node, shape))


@dataclass
class _Split:
    """A region of what needs the step before it. `made` says of each value what it is around the region or in it."""

    graph: Values
    axis: Axis
    carried: list[tuple[Value, Node, Value]]
    made: dict[int, Value] = field(default_factory=dict)
    inner: list[Value] = field(default_factory=list)
    moving: set[int] = field(default_factory=set)

    def results(self, shown: Mapping[str, Value]) -> dict[str, Value]:
        """Of each value the one that has all steps, as its first dimension."""
        before = {id(value) for value, _, _ in self.carried}
        held = {id(after) for _, _, after in self.carried}
        bound = set(before)
        for value in values(*(after for _, _, after in self.carried), *shown.values()):
            if value.kind == "source" or value.region is not None:
                continue
            under = {id(each.value) for each in reads(*value.bodies)}
            inside = bool(under & bound) or id(value) in held
            moving = bool(under & self.moving) or self._uses(value)
            if not inside and not moving:
                continue
            if value.kind == "steps":
                raise UnwritableError(f"{value.origin} in a loop over steps")
            if inside:
                bound.add(id(value))
                self.made[id(value)] = made = self._anew(value, 0)
                self.inner.append(made)
            else:
                self.moving.add(id(value))
                self.made[id(value)] = self._anew(value, 1)
        asked = (*(after for _, _, after in self.carried), *shown.values())
        results = tuple(dict.fromkeys(self.made[id(each)] for each in asked if id(each) in bound))
        carried = tuple(Carried(old, first, self.made[id(after)]) for old, first, after in self.carried)
        region = self.graph.region(self.axis, tuple(self.inner), results, carried)
        return {name: self._shown(value, region) for name, value in shown.items()}

    def _uses(self, value: Value) -> bool:
        return any(index.uses(self.axis) for each in elements(*value.bodies) if isinstance(each, Element)
                   for index in each.indices)  # fmt: skip

    def _anew(self, value: Value, ahead: int) -> Value:
        """The value over what its operands became; with `ahead`, at all steps."""
        assert value.body is not None
        shape = (self.axis.extent, *value.shape) if ahead else value.shape
        now = axes("i", shape)
        places = dict(zip(value.axes, map(along, now[1:]), strict=True)) | {self.axis: along(now[0])} if ahead else {}
        step = along(now[0]) if ahead else along(self.axis)

        def read(each: Element) -> Node:
            if each.kind != "read" or id(each.value) not in self.made:
                return each
            made = self.made[id(each.value)]
            lead = (step,) if id(each.value) in self.moving else ()
            return self.graph.read(made, (*lead, *each.indices), partial=each.partial)

        body = self.graph.rewritten(value.body, places, read)
        over = tuple(axis.extent for axis in value.reduced)
        self.graph.origin = value.origin
        return self.graph.value(
            value.kind, value.op, value.dtype, shape, body, over, value.dim + ahead, taps=value.taps
        )

    def _shown(self, value: Value, region: Region) -> Value:
        made = self.made.get(id(value), value)
        if made in region.made:
            return self.graph.loop(region, made)
        if id(value) in self.moving:
            return made
        shape = (self.axis.extent, *value.shape)
        return self.graph.map(shape, self.graph.read(value, tuple(map(along, axes("i", shape)[1:]))))


def gathered(state: Lowering, op: Op) -> Op:
    """A `stack` or `cat` of what loops show, as a `cat` of one piece for each run of steps; any other as it is."""
    name = op.target.split(".")[1]
    (parts, dim), stacks = ((*op.args, 0)[:2] if op.args else ((), 0)), name == "stack"
    if name not in ("stack", "cat", "concat") or not isinstance(parts, tuple) or not isinstance(dim, int):
        return op
    if sum(isinstance(each, Ref) and each.ref in state.steps for each in parts) < 2:
        return op
    graph, shape = state.graph, op.results[0].shape
    dim %= len(shape)
    pieces: list[Node] = []
    run: list[tuple[Value, int]] = []

    def close() -> None:
        if run:
            pieces.append(_run(graph, run, dim, stacks))
            run.clear()

    for each in parts:
        entry = state.steps.get(each.ref) if isinstance(each, Ref) and each.ref not in state.values else None
        follows = (
            entry
            and run
            and entry[0] is run[0][0]
            and (len(run) == 1 or entry[1] - run[-1][1] == run[1][1] - run[0][1])
        )
        if not follows:
            close()
        if entry:
            run.append(entry)
            continue
        node = state.value(each)
        one = (*shape[:dim], 1, *shape[dim + 1 :])
        pieces.append(graph.expand(graph.reshape(node, one), one) if stacks else node)
    close()
    refs = []
    for place, piece in enumerate(pieces):
        ref = f"{op.results[0].name} piece {place}"
        state.values[ref] = piece
        refs.append(Ref(ref=ref))
    return op.model_copy(update={"target": "aten.cat.default", "args": (tuple(refs), dim), "kwargs": {}})


def _run(graph: Values, run: list[tuple[Value, int]], dim: int, stacks: bool) -> Node:
    """Several steps along one dimension: of its own, or one that each step has."""
    of, first = run[0]
    by = run[1][1] - first if len(run) > 1 else 0
    shape = of.shape[1:]
    each = 1 if stacks else shape[dim]
    whole = (*shape[:dim], len(run) * each, *shape[dim + (not stacks) :])
    here = list(places(whole))
    step = here[dim] // each
    here[dim] = here[dim] % each
    if stacks:
        del here[dim]
    return graph.map(whole, graph.read(of, (step * by + first, *here)))
