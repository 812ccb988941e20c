"""What goes where an index says, gathered: each element looks for what is sent to it, and joins it in one order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from knowledge.compiler.ir.dtypes import is_float
from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import Index, along, axes, computed, linear, number, places, unravelled
from knowledge.compiler.ir.nodes import FAR, Value, Values, neutral
from knowledge.compiler.ir.strides import broadcast_shape, packed_strides
from knowledge.compiler.lower.losses import MEAN
from knowledge.compiler.lower.lowering import Lower, Lowering
from knowledge.compiler.lower.moving import Indices, integer, replaced, wrapped
from knowledge.compiler.lower.pointwise import result_dtype
from knowledge.compiler.lower.views import numbers
from knowledge.compiler.problem import Argument, Op

# Elements that may be looked through in all for what belongs to each result.
LOOKED_THROUGH = 1 << 34
# Elements that are put in their places one after the other; of more, each result looks for the last that is its own.
FEW = 16
# A reduction by its name in PyTorch: how the IR folds it, and how the result joins what was there before.
REDUCED = {
    "sum": ("sum", "add"), "add": ("sum", "add"), "mean": ("sum", "add"), "prod": ("prod", "mul"),
    "multiply": ("prod", "mul"), "amax": ("amax", "maximum"), "amin": ("amin", "minimum"),
}  # fmt: skip


@dataclass(frozen=True)
class Sent:
    """Elements on their way to a result, in their order: `over` are the extents that they are looked through by.

    At a step of those, `mine` says whether its element goes to the result's own place, and `due` is the element.
    """

    over: tuple[int, ...]
    mine: Callable[[Indices], Node]
    due: Callable[[Indices], Node]

    def check(self, op: Op) -> None:
        """Raises `UnwritableError` where all that each result looks through is too much."""
        if prod(op.results[0].shape) * prod(self.over) > LOOKED_THROUGH:
            count, shape = prod(self.over), list(op.results[0].shape)
            raise UnwritableError(f"{op.target} of {count} elements that each element of {shape} looks through")


def put(graph: Values, op: Op, base: Node, sent: Sent) -> Node:
    """The base, but for what is sent: of several that go to one place, the last."""
    shape, dtype, over = op.results[0].shape, op.results[0].dtype, sent.over
    body, count = graph.read(base, places(shape)), prod(over)
    if count <= FEW:
        for each in range(count):
            step = unravelled(number(each), over)
            body = graph.element("select", dtype, sent.mine(step), sent.due(step), body)
        return graph.map(shape, body)
    sent.check(op)
    steps = tuple(map(along, axes("r", over)))
    kind = "int32" if count < FAR else "int64"
    place = graph.position(linear(steps, packed_strides(over)))
    place = place if kind == "int64" else graph.element("cast", kind, place)
    last = graph.fold(
        "amax", shape, over, graph.element("select", kind, sent.mine(steps), place, graph.const(-1, kind))
    )
    found = graph.read(last, places(shape))
    whole = found if kind == "int64" else graph.element("cast", "int64", found)
    due = sent.due(unravelled(computed(whole), over))
    some = graph.element("ge", "bool", found, graph.const(0, kind))
    return graph.map(shape, graph.element("select", dtype, some, due, body))


def joined(graph: Values, op: Op, base: Node, sent: Sent, reduction: str, *, with_base: bool = True) -> Node:
    """What is sent to each place reduced, with what the base has there or, where anything is sent, without."""
    shape, dtype, over = op.results[0].shape, op.results[0].dtype, sent.over
    if dtype == "bool":
        raise UnwritableError(f"{op.target} of truths")
    sent.check(op)
    fold, join = REDUCED[reduction]
    steps = tuple(map(along, axes("r", over)))
    mine = sent.mine(steps)
    none = graph.const(neutral(fold, dtype), dtype)
    made: Node = graph.fold(fold, shape, over, graph.element("select", dtype, mine, sent.due(steps), none))
    if with_base and not (fold == "sum" and _is_zero(base)):
        made = graph.compute(join, dtype, base, made)
    if with_base and reduction != "mean":
        return made
    one = graph.element("select", "int64", mine, graph.const(1, "int64"), graph.const(0, "int64"))
    count: Node = graph.fold("sum", shape, over, one)
    if reduction == "mean":
        told = graph.compute("add", "int64", count, graph.const(1, "int64")) if with_base else count
        told = graph.compute("maximum", "int64", told, graph.const(1, "int64"))
        divided = "div" if is_float(dtype) else "floor_divide"
        made = graph.compute(divided, dtype, made, graph.compute("cast", dtype, told))
    if with_base:
        return made
    some = graph.compute("gt", "bool", count, graph.const(0, "int64"))
    return graph.compute("select", dtype, some, made, base)


def _nll(state: Lowering, op: Op) -> Node:
    """-weight of the target's class times the loss's gradient, which a mean divides by the weights' sum."""
    graph, shape, dtype = state.graph, op.results[0].shape, result_dtype(op)
    grad, target = state.operand(op.args[0], dtype), state.value(op.args[2])
    weight, ignored = op.args[3], integer(op.args[5], op)
    dim = 1 if len(shape) > 1 else 0
    here = places(shape)
    own = (*here[:dim], *here[dim + 1 :])
    choice = graph.read(target, own[: len(target.shape)])
    due = graph.read(grad, own) if grad.shape else graph.read(grad, ())
    if op.args[4] == MEAN:
        due = graph.element("div", dtype, due, graph.read(state.operand(op.args[6], dtype), ()))
    due = graph.element("neg", dtype, due)
    if weight is not None:
        due = graph.element(
            "mul", dtype, due, graph.read(state.operand(weight, dtype), (computed(choice),), partial=True)
        )
    counts = graph.element("ne", "bool", choice, graph.const(ignored, "int64"))
    mine = graph.element("and", "bool", graph.element("eq", "bool", choice, graph.position(here[dim])), counts)
    return graph.map(shape, graph.element("select", dtype, mine, due, graph.const(0.0, dtype)))


def _is_zero(node: Node) -> bool:
    number_ = node.body if isinstance(node, Value) and node.kind == "map" else node
    return number_ is not None and number_.kind == "const" and number_.payload[0] == 0


def _embedding(state: Lowering, op: Op) -> Node:
    """Of each row of the table, the sum over the places that read it."""
    grad, index = state.operand(op.args[0], result_dtype(op)), state.value(op.args[1])
    padding = integer(op.args[3], op)
    if op.args[4] is True:
        raise UnwritableError(f"{op.target} scaled by how often each row is read")
    sent = _sent_in_rows(state, index, grad, 0, op.results[0].shape, turned=False)
    made = joined(state.graph, op, state.graph.const(0.0, grad.dtype), sent, "sum")
    if padding < 0:
        return made
    graph, (row, column) = state.graph, places(made.shape)
    kept = graph.element("ne", "bool", graph.position(row), graph.const(padding, "int64"))
    none = graph.const(0.0, made.dtype)
    return graph.map(made.shape, graph.element("select", made.dtype, kept, graph.read(made, (row, column)), none))


def _reshaped(state: Lowering, op: Op, given: Argument) -> Node:
    """An operand in its own type, of one dimension where it has none."""
    node = state.value(given)
    return node if node.shape or node.uniform else state.graph.reshape(node, (1,))


def _sent_along(state: Lowering, op: Op, index: Node, source: Node, dim: int, shape: tuple[int, ...]) -> Sent:
    """By whole numbers for places along a dimension, one for each element of the source that lies at the same place."""
    graph, here = state.graph, places(shape)

    def mine(step: Indices) -> Node:
        at = replaced(here, dim, step[0])
        found = graph.element(
            "eq", "bool", _whole(graph, graph.read(index, at, partial=True)), graph.position(here[dim])
        )
        for place, extent, have in zip(at, index.shape, shape, strict=True):
            if place is not at[dim] and extent < have:
                found = graph.element("and", "bool", graph.within(place, extent), found)
        return found

    def due(step: Indices) -> Node:
        return graph.read(source, replaced(here, dim, step[0]), partial=True)

    return Sent(index.shape[dim : dim + 1], mine, due)


def _sent_in_rows(
    state: Lowering, index: Node, source: Node, dim: int, shape: tuple[int, ...], *, turned: bool
) -> Sent:
    """By one whole number a row: negative ones count from the end where `turned`. The index may have any shape, and
    its dimensions stand in the source for the one that they tell."""
    graph, here = state.graph, places(shape)

    def mine(step: Indices) -> Node:
        place = graph.read(index, step, partial=True)
        told = graph.position(wrapped(graph, place, shape[dim])) if turned else _whole(graph, place)
        return graph.element("eq", "bool", told, graph.position(here[dim]))

    def due(step: Indices) -> Node:
        return graph.read(source, (*here[:dim], *step, *here[dim + 1 :]), partial=True)

    return Sent(index.shape, mine, due)


def _whole(graph: Values, element: Node) -> Node:
    return element if element.dtype == "int64" else graph.element("cast", "int64", element)


def _base_of(state: Lowering, op: Op) -> tuple[Op, Node, int]:
    """The operation with one dimension at least, what it changes, and the dimension along which."""
    base = state.operand(op.args[0], result_dtype(op))
    (result,) = op.results
    if not result.shape:
        result = result.model_copy(update={"shape": (1,), "strides": (1,)})
        base = state.graph.expand(base, (1,)) if base.uniform else state.graph.reshape(base, (1,))
    return op.model_copy(update={"results": (result,)}), base, integer(op.args[1], op) % len(result.shape)


def _as_asked(state: Lowering, op: Op, made: Node) -> Node:
    return state.graph.reshape(made, op.results[0].shape)


def _scatter(state: Lowering, op: Op) -> Node:
    """scatter, scatter_add and scatter_reduce: (base, dim, index, source or a number)."""
    wide, base, dim = _base_of(state, op)
    index, source = _reshaped(state, op, op.args[2]), state.cast(_reshaped(state, op, op.args[3]), base.dtype)
    sent = _sent_along(state, op, index, source, dim, wide.results[0].shape)
    name = op.target.split(".")[1].rstrip("_")
    reduction = "sum" if name == "scatter_add" else state.argument(op, 4, "reduce")
    if reduction is None:
        return _as_asked(state, op, put(state.graph, wide, base, sent))
    with_base = state.argument(op, 5, "include_self") is not False
    return _as_asked(state, op, joined(state.graph, wide, base, sent, str(reduction), with_base=with_base))


def _in_rows(state: Lowering, op: Op, source: Argument, *, turned: bool = False) -> tuple[Op, Node, Sent]:
    wide, base, dim = _base_of(state, op)
    index = _reshaped(state, op, op.args[2])
    rows = state.cast(_reshaped(state, op, source), base.dtype)
    return wide, base, _sent_in_rows(state, index, rows, dim, wide.results[0].shape, turned=turned)


def _index_add(state: Lowering, op: Op) -> Node:
    wide, base, sent = _in_rows(state, op, op.args[3])
    factor = state.operand(op.kwargs["alpha"], base.dtype)
    if op.kwargs["alpha"] != 1:
        due, graph = sent.due, state.graph
        sent = Sent(sent.over, sent.mine, lambda step: graph.element("mul", base.dtype, due(step), factor))
    return _as_asked(state, op, joined(state.graph, wide, base, sent, "sum"))


def _index_copy(state: Lowering, op: Op) -> Node:
    return _as_asked(state, op, put(state.graph, *_in_rows(state, op, op.args[3])))


def _index_fill(state: Lowering, op: Op) -> Node:
    """Rows that are one number."""
    wide, base, sent = _in_rows(state, op, 0, turned=True)
    graph, number_ = state.graph, state.operand(op.args[3], base.dtype)
    value = number_ if number_.uniform else graph.read(number_, ())
    return _as_asked(state, op, put(graph, wide, base, Sent(sent.over, sent.mine, lambda _: value)))


def _index_reduce(state: Lowering, op: Op) -> Node:
    with_base = op.kwargs["include_self"] is not False
    sent = _in_rows(state, op, op.args[3])
    return _as_asked(state, op, joined(state.graph, *sent, str(op.args[4]), with_base=with_base))


def _index_put(state: Lowering, op: Op) -> Node:
    """base[a, :, b] = source by whole numbers, broadcast against each other; or by a mask."""
    graph, dtype, given, (result,) = state.graph, result_dtype(op), op.args[1], op.results
    assert isinstance(given, tuple)
    base, source = state.operand(op.args[0], dtype), state.operand(op.args[2], dtype)
    picks = {dim: state.value(each) for dim, each in enumerate(given) if each is not None}
    adds = state.argument(op, 3, "accumulate") is True
    if any(pick.dtype == "bool" for pick in picks.values()):
        return _put_by_mask(state, op, base, source, picks, adds=adds)
    if not result.shape:
        raise UnwritableError(f"{op.target} into a number")
    block = broadcast_shape(tuple(pick.shape for pick in picks.values()))
    here, start = places(result.shape), min(picks)
    start = start if list(picks) == list(range(start, start + len(picks))) else 0
    kept = [place for dim, place in enumerate(here) if dim not in picks]

    def mine(step: Indices) -> Node:
        found: Node = graph.const(True, "bool")
        for dim, pick in picks.items():
            told = graph.position(wrapped(graph, graph.read(pick, spread(pick, step)), result.shape[dim]))
            found = graph.element("and", "bool", graph.element("eq", "bool", told, graph.position(here[dim])), found)
        return found

    def spread(node: Node, at: Indices) -> Indices:
        """The part of some indices that an operand has, broadcast."""
        own = at[len(at) - len(node.shape) :]
        return tuple(number(0) if extent == 1 else place for extent, place in zip(node.shape, own, strict=True))

    def due(step: Indices) -> Node:
        return graph.read(source, spread(source, (*kept[:start], *step[: len(block)], *kept[start:])), partial=True)

    sent = Sent(block or (1,), mine, due)
    return joined(graph, op, base, sent, "sum") if adds else put(graph, op, base, sent)


def _put_by_mask(state: Lowering, op: Op, base: Node, source: Node, picks: dict[int, Node], *, adds: bool) -> Node:
    """Where a mask over the first dimensions is set: rows that are all the same."""
    graph, (result,), (mask,) = state.graph, op.results, picks.values()
    lead = len(mask.shape)
    if (
        len(picks) > 1
        or mask.dtype != "bool"
        or (len(source.shape) > len(result.shape) - lead and source.shape[0] != 1)
    ):
        raise UnwritableError(f"{op.target} of different rows by a mask")
    here, first = places(result.shape), min(picks)
    own = source.shape[1:] if len(source.shape) > len(result.shape) - lead else source.shape
    row = graph.reshape(source, own)
    kept = (*here[:first], *here[first + lead :])
    at = tuple(number(0) if size == 1 else place for size, place in zip(own, kept[len(kept) - len(own) :], strict=True))
    element, old = graph.read(row, at), graph.read(base, here)
    if adds:
        element = graph.element("add", base.dtype, old, element)
    chosen = graph.read(mask, here[first : first + lead])
    return graph.map(result.shape, graph.element("select", base.dtype, chosen, element, old))


def _put(state: Lowering, op: Op) -> Node:
    """Elements at places of the whole, as if it had one dimension: (base, index, source, accumulate)."""
    graph, dtype, shape = state.graph, result_dtype(op), op.results[0].shape
    flat = op.results[0].model_copy(update={"shape": (prod(shape),), "strides": (1,)})
    wide = op.model_copy(update={"results": (flat,)})
    base = graph.reshape(state.operand(op.args[0], dtype), flat.shape)
    index, source = state.value(op.args[1]), state.operand(op.args[2], dtype)
    index, source = (graph.reshape(each, (prod(each.shape),)) for each in (index, source))
    sent = _sent_in_rows(state, index, source, 0, flat.shape, turned=True)
    adds = state.argument(op, 3, "accumulate") is True
    return graph.reshape(joined(graph, wide, base, sent, "sum") if adds else put(graph, wide, base, sent), shape)


def _masked_scatter(state: Lowering, op: Op) -> Node:
    """The source's elements, one after the other, where the mask is set: each is the number of those before it."""
    graph, dtype, shape = state.graph, result_dtype(op), op.results[0].shape
    base, source = (
        graph.expand(state.operand(op.args[at], dtype), shape) if at == 0 else state.operand(op.args[at], dtype)
        for at in (0, 2)
    )
    mask = graph.expand(state.operand(op.args[1], "bool"), shape)
    mask = graph.map(shape, mask) if mask.uniform else mask
    ones = graph.reshape(graph.compute("cast", "int64", mask), (prod(shape),))
    before = graph.scan("sum", ones, 0)
    place = linear(places(shape), packed_strides(shape))
    flat = graph.reshape(source, (prod(source.shape),))
    due = graph.read(flat, (computed(graph.read(before, (place,))) - 1,), partial=True)
    chosen = graph.read(mask, places(shape))
    return graph.map(shape, graph.element("select", dtype, chosen, due, graph.read(base, places(shape))))


def _bags(state: Lowering, op: Op) -> Node:
    """embedding_bag: sums, means or maxima of the rows that consecutive indices pick, each bag from its offset on."""
    graph, dtype, (bags, columns) = state.graph, result_dtype(op), op.results[0].shape
    table, index, offsets = state.operand(op.args[0], dtype), state.value(op.args[1]), state.value(op.args[2])
    mode, weights, padding = (
        state.argument(op, 4, "mode"),
        state.argument(op, 6, "per_sample_weights"),
        state.argument(op, 8, "padding_idx"),
    )
    count, here = index.shape[0], places((bags, columns))
    (step,) = map(along, axes("r", (count,)))

    def begins(bag: Index) -> Node:
        told = _whole(graph, graph.read(offsets, (bag,), partial=True))
        return graph.element("select", "int64", graph.within(bag, offsets.shape[0]), told, graph.const(count, "int64"))

    at = graph.position(step)
    mine = graph.element("ge", "bool", at, begins(here[0]))
    mine = graph.element("and", "bool", graph.element("lt", "bool", at, begins(here[0] + 1)), mine)
    row = _whole(graph, graph.read(index, (step,)))
    if padding not in (None, -1):
        skipped = graph.const(integer(padding, op) % table.shape[0], "int64")
        mine = graph.element("and", "bool", graph.element("ne", "bool", row, skipped), mine)
    due = graph.read(table, (computed(row), here[1]), partial=True)
    if weights is not None:
        due = graph.element("mul", dtype, due, graph.read(state.operand(weights, dtype), (step,)))
    fold = "amax" if mode == 2 else "sum"  # 0 is a sum, 1 a mean, 2 the largest
    Sent((count,), lambda _: mine, lambda _: due).check(op)
    none = graph.const(neutral(fold, dtype), dtype)
    made: Node = graph.fold(fold, (bags, columns), (count,), graph.element("select", dtype, mine, due, none))
    if not mode:
        return made
    one = graph.element("select", "int64", mine, graph.const(1, "int64"), graph.const(0, "int64"))
    held: Node = graph.fold("sum", (bags, columns), (count,), one)
    if mode == 1:
        least = graph.compute("maximum", "int64", held, graph.const(1, "int64"))
        return graph.compute("div", dtype, made, graph.compute("cast", dtype, least))
    some = graph.compute("gt", "bool", held, graph.const(0, "int64"))
    return graph.compute("select", dtype, some, made, graph.const(0.0, dtype))


def _strided_scatter(state: Lowering, op: Op) -> Node:
    """What lies at strides in the memory of a whole without gaps is replaced: (whole, part, size, strides, offset)."""
    graph, dtype, shape = state.graph, result_dtype(op), op.results[0].shape
    base, part = (state.operand(each, dtype) for each in op.args[:2])
    traced = state.traced_of(op.args[0])
    if traced is None or traced.strides != packed_strides(traced.shape):
        raise UnwritableError(f"{op.target} of a view whose memory holds more than it")
    strides, offset = numbers(op.args[3], op), integer(state.argument(op, 4, "storage_offset") or 0, op)
    own = graph.position(linear(places(shape), packed_strides(shape)))

    def mine(step: Indices) -> Node:
        return graph.element("eq", "bool", graph.position(linear(step[: len(strides)], strides) + offset), own)

    return put(graph, op, base, Sent(part.shape or (1,), mine, lambda step: graph.read(part, step[: len(part.shape)])))


def _slice_scatter(state: Lowering, op: Op) -> Node:
    """A slice replaced: (whole, part, dim, start, end, step)."""
    graph, shape, dtype = state.graph, op.results[0].shape, result_dtype(op)
    base, part = (state.operand(each, dtype) for each in op.args[:2])
    dim = integer(state.argument(op, 2, "dim"), op) % len(shape)
    start, step = integer(state.argument(op, 3, "start") or 0, op), integer(state.argument(op, 5, "step"), op)
    start = max(start + shape[dim], 0) if start < 0 else min(start, shape[dim])
    return _replaced_part(graph, base, part, dim, start, step, op)


def _replaced_part(graph: Values, base: Node, part: Node, dim: int, start: int, step: int, op: Op) -> Node:
    shape = op.results[0].shape
    here = places(shape)
    gone = here[dim] - start
    # What a step does not reach is put beyond the part.
    index = gone // step + gone % step * (part.shape[dim] + shape[dim] + 1) if step > 1 else gone
    inside = graph.within(index, part.shape[dim])
    element = graph.read(part, replaced(here, dim, index), partial=True)
    return graph.map(shape, graph.element("select", part.dtype, inside, element, graph.read(base, here)))


def _select_scatter(state: Lowering, op: Op) -> Node:
    """One place along a dimension replaced: (whole, part, dim, index)."""
    graph, shape, dtype = state.graph, op.results[0].shape, result_dtype(op)
    base, part = (state.operand(each, dtype) for each in op.args[:2])
    dim = integer(op.args[2], op) % len(shape)
    wide = graph.reshape(part, (*shape[:dim], 1, *shape[dim + 1 :]))
    return _replaced_part(graph, base, wide, dim, integer(op.args[3], op) % shape[dim], 1, op)


SCATTERING: dict[str, Lower] = {
    "nll_loss_backward": _nll, "nll_loss2d_backward": _nll, "embedding_dense_backward": _embedding,
    "index_add": _index_add, "index_put": _index_put, "_unsafe_index_put": _index_put, "index_copy": _index_copy,
    "index_fill": _index_fill, "as_strided_scatter": _strided_scatter,
    "index_reduce": _index_reduce, "put": _put, "scatter": _scatter,
    "scatter_add": _scatter, "scatter_reduce": _scatter, "masked_scatter": _masked_scatter,
    "embedding_bag": _bags, "_embedding_bag": _bags, "_embedding_bag_forward_only": _bags,
    "slice_scatter": _slice_scatter, "select_scatter": _select_scatter,
}  # fmt: skip
