"""Reductions in stages: a device that has more threads than a sum has results makes parts of it first.

A reduction to less than `few` elements over `many` or more is made as many parts as make `few` elements of the first
stage, each over the same elements whoever computes it, then of the parts in their order. Products are made in shares
that are `tiles` of results for blocks of threads. Columns have a thread each, and fewer than `threads` are few. Where
an extremum is, is the least position among those that hold it; of the first NaN where there is one.

A reduction of up to `TERMS` elements is written out and so becomes elementwise; of a `stack` or `cat`, each term reads
the part that it comes from.
"""

from __future__ import annotations

from functools import reduce
from itertools import product
from math import prod

from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Axis, Index, along, axes, linear, number, places, unravelled
from knowledge.compiler.ir.kept import kept
from knowledge.compiler.ir.nodes import FAR, PLACES, Value, Values, neutral, reads
from knowledge.compiler.ir.rewriting import renewed
from knowledge.compiler.ir.sizes import Size
from knowledge.compiler.ir.strides import packed_strides
from knowledge.compiler.lower.front import traced
from knowledge.compiler.lower.lowering import Lowered
from knowledge.compiler.problem import Problem

# Results of a block, and products that are worth one of its own.
TILE, LEAST_SHARE = 64 * 64, 512
# Elements of a column that are worth a thread.
LEAST_OF_A_COLUMN = 256
# Terms that are written out.
TERMS = 4
_JOINS = {"sum": "add", "prod": "mul", "amax": "maximum", "amin": "minimum"}


@kept(8)
def staged(problem: Problem) -> Lowered:
    """The problem's outputs as values, with stages for its device. Raises `UnwritableError` as `traced` does."""
    made = traced(problem)
    stages = _Stages(made.graph, problem)
    roots = renewed(made.graph, (node for _, node in made.outputs), stages.of)
    outputs = tuple((tensor, root) for (tensor, _), root in zip(made.outputs, roots, strict=True))
    return Lowered(made.graph, outputs, made.operations)


class _Stages:
    """The values of a forward on their way to a device."""

    def __init__(self, graph: Values, problem: Problem) -> None:
        self.graph = graph
        self.few, self.many, self.tiles, self.threads = 0, 1, 0, 0
        if problem.on_gpu:
            processors = max(problem.device.multiprocessors, 64)
            self.few, self.many, self.tiles, self.threads = 4 * processors, 8 << 10, 2 * processors, 512 * processors
        elif problem.device.threads > 1:
            self.few, self.many = 16 * problem.device.threads, 16 << 10

    def of(self, value: Value) -> Value:
        """The value, or what comes to the same in stages."""
        if value.kind != "reduce" or value.body is None:
            return value
        over = tuple(axis.extent for axis in value.reduced)
        if value.op in PLACES:
            return self._place(value, over)
        if _few(value, over):
            return self._written_out(value, value.body, over)
        shares = self._shares(value.shape, over) if value.contracts else 1
        if shares < 2:
            return self._folded(value.op, value.shape, over, value.body, value)
        cut = (over[0] // shares, *over[1:])
        (share, *kept), (step, *rest) = axes("i", (shares, *value.shape)), axes("r", cut)
        new = (*map(along, kept), along(share) * step.extent + along(step), *map(along, rest))
        part = self._moved(value.body, (*value.axes, *value.reduced), new)
        made = self._folded("sum", (shares, *value.shape), cut, part)
        return self._folded("sum", value.shape, (shares,), self._each_of(made, shares, value.shape))

    def _written_out(self, value: Value, body: Node, over: tuple[int, ...]) -> Value:
        steps = (dict(zip(value.reduced, map(number, each), strict=True)) for each in product(*map(range, over)))
        terms = [self.graph.rewritten(body, each, lambda read: read) for each in steps]
        return self.graph.map(
            value.shape, reduce(lambda one, other: self.graph.element(_JOINS[value.op], value.dtype, one, other), terms)
        )

    def _shares(self, shape: tuple[int, ...], over: tuple[int, ...]) -> int:
        """In how many equal shares a sum is made, so that tiles of its results are enough for the device."""
        wanted = min(self.tiles * TILE // max(prod(shape), TILE), prod(over) // LEAST_SHARE)
        return max((count for count in range(2, wanted + 1) if over[0] % count == 0), default=1)

    def _folded(
        self, op: str, shape: tuple[int, ...], over: tuple[int, ...], body: Node, made: Value | None = None
    ) -> Value:
        """The body reduced in one stage (`made`, where there is that already) or two."""
        outputs, count = max(prod(shape), 1), prod(over)
        parts = min(self.few // outputs, count // self.many)
        if parts > 1 and len(over) > 1 and outputs == 1 and self._row_by_row(over, body):
            parts = over[0]
        if self.threads and _columns(shape, over, body):
            wanted = min(self.threads // outputs, count // LEAST_OF_A_COLUMN)
            parts = max(parts, 1 << wanted.bit_length() >> 1)  # which mostly leaves no rest
        if parts < 2:
            return made or self.graph.fold(op, shape, over, body)
        return self._in_parts(op, shape, over, body, parts)

    def _row_by_row(self, over: tuple[int, ...], body: Node) -> bool:
        """Whether the body depends on reductions of the same rows: the kernel that holds a row then reduces it, too."""
        if not self.few <= over[0] <= self.many:
            return False
        left, seen = [each.value for each in reads(body)], set()
        while left:
            value = left.pop()
            if value is None or id(value) in seen:
                continue
            seen.add(id(value))
            extents = tuple(axis.extent for axis in value.reduced)
            if value.kind == "reduce" and (value.numel, prod(extents)) == (over[0], prod(over[1:])):
                return True
            if value.kind == "map" and value.body is not None:
                left += [each.value for each in reads(value.body)]
        return False

    def _in_parts(self, op: str, shape: tuple[int, ...], over: tuple[int, ...], body: Node, parts: int) -> Value:
        """The outermost axes, as many as it takes, are cut: f = part * chunk + step runs over all of them."""
        graph = self.graph
        cut = next(count for count in range(1, len(over) + 1) if prod(over[:count]) >= parts)
        whole = prod(over[:cut])
        chunk = -(-whole // parts)
        parts = parts if isinstance(chunk, Size) else -(-whole // chunk)  # of a size known later some may be empty
        first, *kept = axes("i", (parts, *shape))
        step, *rest = axes("r", (chunk, *over[cut:]))
        place = along(first) * chunk + along(step)
        new = (*map(along, kept), *unravelled(place, over[:cut]), *map(along, rest))
        part = self._moved(body, (*axes("i", shape), *axes("r", over)), new)
        none = graph.const(neutral(op, body.dtype), body.dtype)
        part = graph.element("select", body.dtype, graph.within(place, whole), part, none)
        made = graph.fold(op, (parts, *shape), (chunk, *over[cut:]), part)
        return graph.fold(op, shape, (parts,), self._each_of(made, parts, shape))

    def _moved(self, body: Node, old: tuple[Axis, ...], new: tuple[Index, ...]) -> Node:
        return self.graph.rewritten(body, dict(zip(old, new, strict=True)), lambda read: read)

    def _each_of(self, made: Value, count: int, shape: tuple[int, ...]) -> Node:
        """The part r0 of a result."""
        return self.graph.read(made, (*map(along, axes("r", (count,))), *places(shape)))

    def _place(self, value: Value, over: tuple[int, ...]) -> Value:
        """The least position among those that hold the extremum; of the first NaN where there is one."""
        graph, x = self.graph, value.body
        assert x is not None
        best = self._folded("amax" if value.op == "argmax" else "amin", value.shape, over, x)
        top = graph.read(best, places(value.shape))
        found = graph.element("or", "bool", graph.element("eq", "bool", x, top), graph.element("ne", "bool", x, x))
        near = "int32" if prod(over) < FAR else "int64"
        here = graph.position(linear(map(along, value.reduced), packed_strides(over)))
        here = here if near == "int64" else graph.element("cast", near, here)
        candidate = graph.element("select", near, found, here, graph.const(prod(over), near))
        first = self._folded("amin", value.shape, over, candidate)
        return first if near == "int64" else graph.compute("cast", "int64", first)  # type: ignore[return-value]


def _few(value: Value, over: tuple[int, ...]) -> bool:
    """Whether a reduction has few enough terms to be written out."""
    fixed = not any(isinstance(each, Size) for each in over) and 1 < prod(over) <= TERMS
    return fixed and value.op in _JOINS and value.dtype != "bool" and not value.contracts and not value.taps


def _columns(shape: tuple[int, ...], over: tuple[int, ...], body: Node) -> bool:
    """Whether neighbouring results are sums of neighbours in memory."""
    if not shape or shape[-1] < 32:
        return False
    last, steps = axes("i", shape)[-1], axes("r", over)
    summed = [each for each in reads(body) if any(index.uses(axis) for index in each.indices for axis in steps)]
    return bool(summed) and all(each.indices[-1].alone == last for each in summed)
