"""What windows send back to their operand, gathered: pools, convolutions, resampling. Each element sums what is due to
it, in one order, where PyTorch adds from many threads at once: `back` tells which windows meet a place.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod

from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import Index, along, axes, linear, places
from knowledge.compiler.ir.strides import packed_strides
from knowledge.compiler.lower.contracting import Convolution, back
from knowledge.compiler.lower.lowering import Lower, Lowering
from knowledge.compiler.lower.moving import integer
from knowledge.compiler.lower.pointwise import result_dtype
from knowledge.compiler.lower.windows import each_of
from knowledge.compiler.problem import Op

Indices = tuple[Index, ...]
# Elements of a window up to which its largest is looked for wherever it is asked for.
UNROLLED = 32


class Sent:
    """What windows over an operand of `shape` send back to it: `grad` has an element for each window."""

    def __init__(self, state: Lowering, op: Op, dilation: object = 1) -> None:
        self.graph, self.shape = state.graph, op.results[0].shape
        self.grad = state.operand(op.args[0], result_dtype(op))
        if self.grad.uniform:
            raise UnwritableError(f"{op.target} of a constant")
        self.rank = int(op.target.split("pool")[1][0])
        self.size = each_of(op.args[2], self.rank, op)
        self.steps = each_of(op.args[3] or self.size, self.rank, op)
        self.margin = each_of(op.args[4], self.rank, op)
        self.gaps = each_of(dilation, self.rank, op)  # type: ignore[arg-type]
        self.lead, self.extents = self.shape[: -self.rank], self.shape[-self.rank :]

    def summed(self, due: Node) -> Node:
        """At each place of the operand the sum over its windows of `due`, which reads their element at axes r."""
        over = tuple(count for count, _, _ in self._ways())
        if prod(over) == 1:
            return self.graph.map(self.shape, due)
        return self.graph.fold("sum", self.shape, over, due)

    def windows(self) -> tuple[Indices, Node]:
        """Of the windows that may meet a place: which element of `grad` each is, and whether it does meet it."""
        ways = self._ways()
        meets: Node = self.graph.const(True, "bool")
        for (_, _, tap), taps in zip(ways, self.size, strict=True):
            meets = self.graph.element("and", "bool", self.graph.within(tap, taps), meets)
        here = places(self.shape)
        return (*here[: -self.rank], *(window for _, window, _ in ways)), meets

    def _ways(self) -> list[tuple[int, Index, Index]]:
        spread = zip(
            places(self.shape)[-self.rank :], self.steps, self.size, self.gaps, self.margin,
            self.grad.shape[-self.rank :], strict=True,
        )  # fmt: skip
        return [back(position, *each) for position, each in enumerate(spread)]

    def starts(self) -> Indices:
        """Where each window begins, over the axes of `grad`."""
        mine = zip(places(self.grad.shape)[-self.rank :], self.steps, self.margin, strict=True)
        return tuple(place * step - before for place, step, before in mine)


def _max_pool(state: Lowering, op: Op) -> Node:
    """What is due to the first largest element of each window, or to its last NaN, as PyTorch finds them."""
    sent = Sent(state, op, op.args[5])
    graph, dtype = sent.graph, sent.grad.dtype
    winner = _winner(state, op, sent) if prod(sent.size) <= UNROLLED else state.value(op.args[7])
    window, meets = sent.windows()
    chosen, own = graph.read(winner, window, partial=True), _place(sent, places(sent.shape)[-sent.rank :])
    own = own if chosen.dtype == own.dtype else graph.element("cast", chosen.dtype, own)
    mine = graph.element("and", "bool", meets, graph.element("eq", "bool", chosen, own))
    due = graph.read(sent.grad, window, partial=True)
    return sent.summed(graph.element("select", dtype, mine, due, graph.const(0.0, dtype)))


def _place(sent: Sent, at: Indices) -> Node:
    return sent.graph.position(linear(at, packed_strides(sent.extents)))


def _winner(state: Lowering, op: Op, sent: Sent) -> Node:
    """For each window the place of its largest element within its image, compared tap by tap."""
    graph, x = sent.graph, state.value(op.args[1])
    lead, starts = places(sent.grad.shape)[: -sent.rank], sent.starts()
    near = "int32" if prod(sent.extents) < 1 << 31 else "int64"
    best: Node = graph.const(float("-inf"), x.dtype)
    chosen: Node | None = None
    for tap in reversed(list(_taps(sent))):
        at = tuple(start + offset for start, offset in zip(starts, tap, strict=True))
        place = graph.element("cast", near, _place(sent, at)) if near == "int32" else _place(sent, at)
        chosen = place if chosen is None else graph.element("select", near, _inside(sent, at), place, chosen)
    for tap in _taps(sent):
        at = tuple(start + offset for start, offset in zip(starts, tap, strict=True))
        element, inside = graph.read(x, (*lead, *at), partial=True), _inside(sent, at)
        flags = (graph.element("gt", "bool", element, best), graph.element("ne", "bool", element, element))
        better = graph.element("and", "bool", inside, graph.element("or", "bool", *flags))
        place = graph.element("cast", near, _place(sent, at)) if near == "int32" else _place(sent, at)
        assert chosen is not None
        best = graph.element("select", x.dtype, better, element, best)
        chosen = graph.element("select", near, better, place, chosen)
    assert chosen is not None
    return graph.map(sent.grad.shape, chosen)


def _taps(sent: Sent) -> list[tuple[int, ...]]:
    """The offsets of a window's elements, in their order."""
    made: list[tuple[int, ...]] = [()]
    for count, gap in zip(sent.size, sent.gaps, strict=True):
        made = [(*tap, number * gap) for tap in made for number in range(count)]
    return made


def _inside(sent: Sent, at: Indices) -> Node:
    found: Node = sent.graph.const(True, "bool")
    for index, extent in zip(at, sent.extents, strict=True):
        found = sent.graph.element("and", "bool", sent.graph.within(index, extent), found)
    return found


def _avg_pool(state: Lowering, op: Op) -> Node:
    """The share of each window's gradient: by its elements, those in the padding counted or not."""
    sent = Sent(state, op)
    graph, dtype = sent.graph, sent.grad.dtype
    override = state.argument(op, 7, "divisor_override")
    count: Node
    if isinstance(override, int):
        count = graph.const(float(override), dtype)
    else:
        padded = state.argument(op, 6, "count_include_pad") is True
        sizes = [_length(sent, dim, padded) for dim in range(sent.rank)]
        count = sizes[0]
        for size in sizes[1:]:
            count = graph.element("mul", "int64", count, size)
        count = graph.element("cast", dtype, count) if count.kind != "const" else state.cast(count, dtype)
    share = graph.element("div", dtype, graph.read(sent.grad, places(sent.grad.shape)), count)
    shares = graph.map(sent.grad.shape, share)
    window, meets = sent.windows()
    due = graph.read(shares, window, partial=True)
    return sent.summed(graph.element("select", dtype, meets, due, graph.const(0.0, dtype)))


def _length(sent: Sent, dim: int, padded: bool) -> Node:
    """How many elements of a window count along a dimension."""
    graph, start, size = sent.graph, sent.starts()[dim], sent.size[dim]
    before = sent.margin[dim] if padded else 0
    low, high = -before, sent.extents[dim] + before
    if (start - low).bounds[0] >= 0 and (start + size).bounds[1] <= high:
        return graph.const(size, "int64")
    first = graph.element("maximum", "int64", graph.position(start), graph.const(low, "int64"))
    last = graph.element("minimum", "int64", graph.position(start + size), graph.const(high, "int64"))
    return graph.element("sub", "int64", last, first)


def _adaptive(state: Lowering, op: Op) -> Node:
    """Share i of m goes over floor(i n / m) to ceil((i + 1) n / m): a place gets from shares that follow each other."""
    graph, shape = state.graph, op.results[0].shape
    grad = state.operand(op.args[0], result_dtype(op))
    dtype, rank = grad.dtype, int(op.target.split("pool")[1][0])
    own, here = places(grad.shape), places(shape)
    share = graph.read(grad, own)
    extents = list(zip(shape[-rank:], grad.shape[-rank:], strict=True))
    for index, (extent, wanted) in zip(own[-rank:], extents, strict=True):
        size = ((index + 1) * extent + (wanted - 1)) // wanted - index * extent // wanted
        share = graph.element("div", dtype, share, graph.element("cast", dtype, graph.position(size)))
    shares = graph.map(grad.shape, share)
    counts, found = [], []
    meets: Node = graph.const(True, "bool")
    for place, (extent, wanted) in zip(here[-rank:], extents, strict=True):
        counts.append(max(((k + 1) * wanted - 1) // extent - k * wanted // extent + 1 for k in range(extent)))
        nth, first = along(axes("r", counts)[-1]), place * wanted // extent
        found.append(first + nth)
        left = ((place + 1) * wanted - 1) // extent - first - nth
        meets = graph.element("and", "bool", graph.within(left, counts[-1]), meets)
    due = graph.read(shares, (*here[:-rank], *found), partial=True)
    return graph.fold("sum", shape, tuple(counts), graph.element("select", dtype, meets, due, graph.const(0.0, dtype)))


def _convolution(state: Lowering, op: Op) -> tuple[Node, ...]:
    """The gradients of operand, weight and bias; of a transposed convolution the first two change places."""
    graph, dtype = state.graph, op.results[0].dtype
    grad, x, weight = (state.operand(each, dtype) for each in op.args[:3])
    rank = len(weight.shape) - 2
    steps, before, gaps = (each_of(op.args[position], rank, op) for position in (4, 5, 6))
    windows = Convolution(steps, before, gaps, integer(op.args[9], op))
    transposed = op.args[7] is True
    if len(grad.shape) != rank + 2:
        raise UnwritableError(f"{op.target} of one image without a batch")
    back_to_x = windows.forward if transposed else windows.transposed
    seen, made = (grad, x) if transposed else (x, grad)
    rows = graph.reduce("sum", dtype, grad, (0, *range(2, rank + 2)), keepdim=False)
    return (
        back_to_x(graph, grad, weight, x.shape),
        windows.of_weight(graph, seen, made, weight.shape),
        rows,
    )


def _nearest(state: Lowering, op: Op) -> Node:
    """Element i of n goes to the places floor(k n / m) = i: they follow each other."""
    graph, shape, dtype = state.graph, op.results[0].shape, result_dtype(op)
    grad = state.operand(op.args[0], dtype)
    rank = len(shape) - 2
    factors = [each for each in op.args[3:] if isinstance(each, float)]
    for factor, wide, extent in zip(factors, grad.shape[2:], shape[2:], strict=False):
        if factor * extent != wide:
            raise UnwritableError(f"{op.target} by a factor that is not whole")
    here, counts, found = places(shape), [], []
    meets: Node = graph.const(True, "bool")
    for place, wide, extent in zip(here[-rank:], grad.shape[2:], shape[2:], strict=True):
        ends = [-(-k * wide // extent) for k in range(extent + 1)]
        counts.append(max(last - first for first, last in pairwise(ends)))
        nth, first = along(axes("r", counts)[-1]), (place * wide + (extent - 1)) // extent
        found.append(first + nth)
        left = ((place + 1) * wide + (extent - 1)) // extent - first - nth - 1
        meets = graph.element("and", "bool", graph.within(left, max(counts[-1], 1)), meets)
    due = graph.read(grad, (*here[:2], *found), partial=True)
    made = graph.element("select", dtype, meets, due, graph.const(0.0, dtype))
    return graph.fold("sum", shape, tuple(counts), made)


GRADIENTS: dict[str, Lower] = {
    **dict.fromkeys((f"max_pool{rank}d_with_indices_backward" for rank in (2, 3)), _max_pool),
    **dict.fromkeys((f"avg_pool{rank}d_backward" for rank in (2, 3)), _avg_pool),
    **dict.fromkeys((f"_adaptive_avg_pool{rank}d_backward" for rank in (2, 3)), _adaptive),
    **dict.fromkeys((f"upsample_nearest{rank}d_backward" for rank in (1, 2, 3)), _nearest),
    "convolution_backward": _convolution,
}  # fmt: skip
