"""Pools over windows of any size, with padding, dilation and cut-off last windows; resampling by other factors."""

from __future__ import annotations

from math import prod

from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import Index, along, axes, computed, linear, places
from knowledge.compiler.ir.nodes import Value, Values, neutral
from knowledge.compiler.ir.strides import packed_strides
from knowledge.compiler.lower.lowering import Lower, Lowering
from knowledge.compiler.lower.moving import clamped
from knowledge.compiler.lower.pointwise import result_dtype
from knowledge.compiler.lower.views import keeping_constants, numbers
from knowledge.compiler.problem import Argument, Op


def each_of(argument: Argument, rank: int, op: Op) -> tuple[int, ...]:
    """One number a dimension; a single one stands for all."""
    given = numbers(argument, op)
    return given * rank if len(given) == 1 else given


class Windows:
    """The windows of a pool: `at` is the place of each tap in the operand, over the axes i and r."""

    def __init__(self, state: Lowering, op: Op, dilation: Argument) -> None:
        self.graph, self.node = state.graph, state.operand(op.args[0], result_dtype(op))
        if self.node.uniform:
            raise UnwritableError(f"{op.target} of a constant")
        self.shape = op.results[0].shape
        rank = int(op.target.split("pool")[1][0])
        self.size = each_of(op.args[1], rank, op)
        steps = each_of(state.argument(op, 2, "stride") or self.size, rank, op)
        self.margin = each_of(state.argument(op, 3, "padding"), rank, op)
        apart = each_of(dilation, rank, op)
        here, taps = places(self.shape), axes("r", self.size)
        self.lead, self.extents = here[:-rank], self.node.shape[-rank:]
        self.at = tuple(
            place * step + along(tap) * gap - before
            for place, step, tap, gap, before in zip(here[-rank:], steps, taps, apart, self.margin, strict=True)
        )

    def inside(self, margin: bool = False) -> Node:
        """Whether a tap is in the operand, or in it and its margins."""
        found: Node = self.graph.const(True, "bool")
        for index, extent, before in zip(self.at, self.extents, self.margin, strict=True):
            wide = (
                self.graph.within(index + before, extent + 2 * before) if margin else self.graph.within(index, extent)
            )
            found = self.graph.element("and", "bool", wide, found)
        return found

    def element(self, outside: float | int | None = None) -> Node:
        """The operand's element at a tap, and what is taken where there is none."""
        element = self.graph.read(self.node, (*self.lead, *self.at), partial=True)
        if outside is None:
            return element
        other = self.graph.const(outside, element.dtype)
        return self.graph.element("select", element.dtype, self.inside(), element, other)


def _max_pool(state: Lowering, op: Op) -> Node | tuple[Node, ...]:
    windows = Windows(state, op, state.argument(op, 4, "dilation"))
    graph, dtype = windows.graph, windows.node.dtype
    best = graph.window("amax", windows.shape, windows.size, windows.element(neutral("amax", dtype)))
    if len(op.results) == 1:
        return best
    place = linear(windows.at, packed_strides(windows.extents))
    element = windows.element(neutral("amax", dtype))
    return best, _first(graph, best, windows.size, element, windows.inside(), place, prod(windows.extents))


def _first(
    graph: Values, best: Value, size: tuple[int, ...], element: Node, inside: Node, place: Index, most: int
) -> Node:
    """The first place in each window that holds its largest element, or NaN."""
    top = graph.read(best, places(best.shape))
    flags = (graph.element("eq", "bool", element, top), graph.element("ne", "bool", element, element))
    found = graph.element("and", "bool", inside, graph.element("or", "bool", *flags))
    candidate = graph.element("select", "int64", found, graph.position(place), graph.const(most, "int64"))
    return graph.fold("amin", best.shape, size, candidate)


def _avg_pool(state: Lowering, op: Op) -> Node:
    windows = Windows(state, op, 1)
    graph, dtype = windows.graph, windows.node.dtype
    total = graph.window("sum", windows.shape, windows.size, windows.element())
    divisor = state.argument(op, 6, "divisor_override")
    if isinstance(divisor, int):
        return graph.compute("div", dtype, total, graph.const(float(divisor), dtype))
    inside = windows.inside(margin=state.argument(op, 5, "count_include_pad") is True)
    if inside.kind == "const":
        return graph.compute("div", dtype, total, graph.const(float(prod(windows.size)), dtype))
    one, none = graph.const(1.0, dtype), graph.const(0.0, dtype)
    count = graph.fold("sum", windows.shape, windows.size, graph.element("select", dtype, inside, one, none))
    return graph.compute("div", dtype, total, count)


def _adaptive(kind: str) -> Lower:
    """Shares from floor(i n / m) to ceil((i + 1) n / m): the largest size of all, the rest left out."""

    def made(state: Lowering, op: Op) -> Node | tuple[Node, ...]:
        graph, node = state.graph, state.operand(op.args[0], result_dtype(op))
        if node.uniform:
            raise UnwritableError(f"{op.target} of a constant")
        shape = op.results[0].shape
        rank = int(op.target.split("pool")[1][0])
        here, sizes, indices = places(shape), [], []
        inside: Node = graph.const(True, "bool")
        for place, extent, wanted in zip(here[-rank:], node.shape[-rank:], shape[-rank:], strict=True):
            shares = [(k * extent // wanted, -(-(k + 1) * extent // wanted)) for k in range(wanted)]
            sizes.append(max(stop - start for start, stop in shares))
            tap = along(axes("r", sizes)[-1])
            index = place * extent // wanted + tap
            indices.append(index)
            if any(stop - start < sizes[-1] for start, stop in shares):
                # tap < ceil((i + 1) n / m) - floor(i n / m)
                left = ((place + 1) * extent + (wanted - 1)) // wanted - index - 1
                inside = graph.element("and", "bool", graph.within(left, sizes[-1]), inside)
        element = graph.read(node, (*here[:-rank], *indices), partial=True)
        if kind == "amax":
            other = graph.const(neutral("amax", node.dtype), node.dtype)
            element = graph.element("select", node.dtype, inside, element, other)
            best = graph.fold("amax", shape, tuple(sizes), element)
            if len(op.results) == 1:
                return best
            place = linear(indices, packed_strides(node.shape[-rank:]))
            return best, _first(graph, best, tuple(sizes), element, inside, place, prod(node.shape[-rank:]))
        none, one = graph.const(0.0, node.dtype), graph.const(1.0, node.dtype)
        total = graph.fold("sum", shape, tuple(sizes), graph.element("select", node.dtype, inside, element, none))
        if inside.kind == "const":
            return graph.compute("div", node.dtype, total, graph.const(float(prod(sizes)), node.dtype))
        count = graph.fold("sum", shape, tuple(sizes), graph.element("select", node.dtype, inside, one, none))
        return graph.compute("div", node.dtype, total, count)

    return made


def _nearest(state: Lowering, op: Op) -> Node:
    """floor(i * n / m); a given factor that is not m / n takes part in torch's rounding, and is declined."""
    graph, node, shape = state.graph, state.value(op.args[0]), op.results[0].shape
    rank = len(shape) - 2
    factors = [each for arg in op.args[2:] for each in (arg if isinstance(arg, tuple) else (arg,)) if each is not None]
    for factor, wide, extent in zip(factors[-rank:], shape[2:], node.shape[2:], strict=False):
        if isinstance(factor, float) and factor * extent != wide:
            raise UnwritableError(f"{op.target} by a factor that is not whole")
    here = places(shape)
    inner = tuple(
        place * extent // wide for place, extent, wide in zip(here[2:], node.shape[2:], shape[2:], strict=True)
    )
    return graph.map(shape, graph.read(node, (*here[:2], *inner)))


def _linear(state: Lowering, op: Op) -> Node:
    """Between the two nearest along each dimension, weighted by how near each is."""
    graph, node, shape = state.graph, state.operand(op.args[0], result_dtype(op)), op.results[0].shape
    aligned = op.args[2] is True
    scales = op.args[-1] if isinstance(op.args[-1], tuple) else op.args[3:]
    factors = tuple(each for each in scales or () if isinstance(each, float))
    for dim in range(2, len(shape)):
        if node.shape[dim] != shape[dim]:
            factor = factors[dim - 2] if len(factors) == len(shape) - 2 else None
            node = _linear_along(graph, node, dim, shape[dim], aligned, factor)
    return node


def _linear_along(graph: Values, node: Node, dim: int, wanted: int, aligned: bool, factor: float | None) -> Node:
    extent, dtype = node.shape[dim], node.dtype
    shape = (*node.shape[:dim], wanted, *node.shape[dim + 1 :])
    here = places(shape)

    def f(op: str, *args: Node | float) -> Node:
        return graph.element(op, dtype, *(a if isinstance(a, Node) else graph.const(float(a), dtype) for a in args))

    place = graph.element("cast", dtype, graph.position(here[dim]))
    if aligned:
        at = f("mul", place, (extent - 1) / (wanted - 1) if wanted > 1 else 0.0)
    else:
        at = f("sub", f("mul", f("add", place, 0.5), 1 / factor if factor else extent / wanted), 0.5)
        at = f("maximum", at, 0.0)
    low = f("floor", at)
    weight = f("sub", at, low)
    first = graph.element("cast", "int64", low)

    def read(offset: int) -> Node:
        held = clamped(graph, computed(first) + offset, extent)
        return graph.read(node, (*here[:dim], held, *here[dim + 1 :]), partial=True)

    mixed = f("add", f("mul", read(0), f("sub", 1.0, weight)), f("mul", read(1), weight))
    return graph.map(shape, mixed)


WINDOWS: dict[str, Lower] = {
    **dict.fromkeys((f"max_pool{rank}d" for rank in (1, 2, 3)), _max_pool),
    **dict.fromkeys((f"max_pool{rank}d_with_indices" for rank in (1, 2, 3)), _max_pool),
    **dict.fromkeys((f"avg_pool{rank}d" for rank in (1, 2, 3)), _avg_pool),
    **dict.fromkeys((f"adaptive_avg_pool{rank}d" for rank in (1, 2, 3)), _adaptive("sum")),
    "_adaptive_avg_pool2d": _adaptive("sum"),
    **dict.fromkeys((f"adaptive_max_pool{rank}d" for rank in (1, 2, 3)), _adaptive("amax")),
    **dict.fromkeys((f"upsample_nearest{rank}d" for rank in (1, 2, 3)), keeping_constants(_nearest)),
    **dict.fromkeys(("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"), _linear),
}
