"""What moves, joins, picks or masks elements: all of it reads at other indices."""

from __future__ import annotations

from collections.abc import Callable

from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import Index, along, axes, computed, number, places
from knowledge.compiler.ir.nodes import Values
from knowledge.compiler.lower.lowering import Lower, Lowering
from knowledge.compiler.lower.pointwise import multiply, result_dtype
from knowledge.compiler.lower.views import keeping_constants, numbers, tensor_operand
from knowledge.compiler.problem import Argument, Op

Indices = tuple[Index, ...]


def integer(argument: Argument, op: Op) -> int:
    """A whole number among the arguments."""
    return numbers(argument, op)[0]


def replaced(indices: Indices, dim: int, index: Index) -> Indices:
    """The indices with another one in one dimension."""
    return (*indices[:dim], index, *indices[dim + 1 :])


def _joined(state: Lowering, op: Op, parts: list[Node], dim: int, each: int = 0) -> Node:
    """Parts one after the other along a dimension: each is read where it is, and 0 elsewhere.

    All have an extent of `each` there; of 0, their own, which a constant among them has lost.
    """
    graph, shape = state.graph, op.results[0].shape
    known = sum(part.shape[dim] for part in parts if part.shape)
    numbers_ = [part for part in parts if not part.shape]
    if len(numbers_) > 1 and not each:
        raise UnwritableError(f"{op.target} of several constants")
    here, end = places(shape), shape[dim]
    body: Node | None = None
    for part in reversed(parts):
        extent = each or (part.shape[dim] if part.shape else shape[dim] - known)
        start = end - extent
        element = graph.read(part, replaced(here, dim, here[dim] - start), partial=True)
        # Later parts lie behind: the first part whose end is not reached yet is the one.
        inside = graph.within(here[dim], end)
        body = element if body is None else graph.element("select", element.dtype, inside, element, body)
        end = start
    assert body is not None
    return graph.map(shape, body)


def _cat(state: Lowering, op: Op) -> Node:
    given, shape = op.args[0], op.results[0].shape
    assert isinstance(given, tuple)
    parts = [state.operand(each, result_dtype(op)) for each in given]
    parts = [part for part in parts if part.shape != (0,) or shape == (0,)]
    dim = integer(state.argument(op, 1, "dim"), op) % max(len(shape), 1)
    return _joined(state, op, parts, dim)


def _stack(state: Lowering, op: Op) -> Node:
    given, shape = op.args[0], op.results[0].shape
    assert isinstance(given, tuple)
    dim = integer(state.argument(op, 1, "dim"), op) % len(shape)
    one = (*shape[:dim], 1, *shape[dim + 1 :])
    parts = [state.graph.reshape(state.operand(each, result_dtype(op)), one) for each in given]
    return _joined(state, op, parts, dim, each=1)


def _margins(argument: Argument, rank: int, op: Op) -> list[int]:
    """How many elements come before each dimension; torch tells the last dimension first."""
    given = numbers(argument, op)
    before = [0] * rank
    for position, count in enumerate(given[::2]):
        before[rank - 1 - position] = count
    return before


def _constant_pad(state: Lowering, op: Op) -> Node:
    graph, node, shape = state.graph, state.operand(op.args[0], result_dtype(op)), op.results[0].shape
    before = _margins(op.args[1], len(shape), op)
    moved = tuple(place - count for place, count in zip(places(shape), before, strict=True))
    inside: Node = graph.const(True, "bool")
    for index, extent in zip(moved, node.shape, strict=True):
        inside = graph.element("and", "bool", graph.within(index, extent), inside)
    fill = state.operand(state.argument(op, 2, "value"), node.dtype)
    return graph.map(shape, graph.element("select", node.dtype, inside, graph.read(node, moved, partial=True), fill))


def clamped(graph: Values, index: Index, extent: int) -> Index:
    """An index held to 0 to extent - 1, computed: no view says so."""
    if index.within(extent):
        return index
    place = graph.position(index)
    low = graph.element("maximum", "int64", place, graph.const(0, "int64"))
    return computed(graph.element("minimum", "int64", low, graph.const(extent - 1, "int64")))


def _mirrored(graph: Values, index: Index, extent: int) -> Index:
    place = graph.element("abs", "int64", graph.position(index))
    last = graph.const(extent - 1, "int64")
    back = graph.element("abs", "int64", graph.element("sub", "int64", last, place))
    return computed(graph.element("sub", "int64", last, back))


def _other_pad(state: Lowering, op: Op) -> Node:
    """reflect, replicate, circular: reads of the operand's own elements."""
    graph, node, shape = state.graph, state.operand(op.args[0], result_dtype(op)), op.results[0].shape
    mode = state.argument(op, 2, "mode") if op.target.startswith("aten.pad.") else op.target.split(".")[1].split("_")[0]
    if mode == "constant":
        return _constant_pad(state, op.model_copy(update={"args": (*op.args[:2], state.argument(op, 3, "value") or 0)}))
    indices = []
    for place, before, extent in zip(
        places(shape), _margins(op.args[1], len(shape), op), node.shape, strict=True
    ):  # fmt: skip
        index = place - before
        if index.within(extent):
            indices.append(index)
        elif mode == "circular":
            indices.append((index + extent) % extent)
        elif mode in ("reflect", "reflection"):
            indices.append(_mirrored(graph, index, extent))
        else:
            indices.append(clamped(graph, index, extent))
    return graph.map(shape, graph.read(node, tuple(indices), partial=True))


def _roll(state: Lowering, op: Op) -> Node:
    graph, node = state.graph, state.value(op.args[0])
    shifts, dims = numbers(op.args[1], op), numbers(state.argument(op, 2, "dims"), op)
    flat = node if dims else graph.reshape(node, (-1,))
    indices = places(flat.shape)
    for shift, dim in zip(shifts, dims or (0,), strict=True):
        place = dim % max(len(flat.shape), 1)
        extent = flat.shape[place] or 1
        indices = replaced(indices, place, (indices[place] - shift % extent + extent) % extent)
    return graph.reshape(graph.map(flat.shape, graph.read(flat, indices)), node.shape)


def _triangle(lower: bool) -> Lower:
    def made(state: Lowering, op: Op) -> Node:
        graph, node = state.graph, state.value(op.args[0])
        diagonal = integer(state.argument(op, 1, "diagonal"), op)
        *_, row, column = here = places(op.results[0].shape)
        gap = column - row - diagonal if lower else row - column + diagonal
        # At most 0 within: shifted by more than any distance.
        span = sum(op.results[0].shape[-2:]) + abs(diagonal) + 1
        inside = graph.within(gap + span, span + 1)
        return graph.map(op.results[0].shape, graph.element(
            "select", node.dtype, inside, graph.read(node, here), graph.const(0, node.dtype)
        ))  # fmt: skip

    return made


def _wrapped(graph: Values, element: Node, extent: int) -> Index:
    """A computed index; negative ones count from the end."""
    whole = element if element.dtype == "int64" else graph.element("cast", "int64", element)
    below = graph.element("lt", "bool", whole, graph.const(0, "int64"))
    turned = graph.element("add", "int64", whole, graph.const(extent, "int64"))
    return computed(graph.element("select", "int64", below, turned, whole))


def _gather(state: Lowering, op: Op) -> Node:
    graph, node, index = state.graph, state.value(op.args[0]), state.value(op.args[2])
    dim = integer(op.args[1], op) % max(len(node.shape), 1)
    here = places(index.shape)
    chosen = _wrapped(graph, graph.read(index, here), node.shape[dim])
    return graph.map(index.shape, graph.read(node, replaced(here, dim, chosen), partial=True))


def _index_select(state: Lowering, op: Op) -> Node:
    graph, node, index = state.graph, state.value(op.args[0]), state.value(op.args[2])
    dim = integer(op.args[1], op) % max(len(node.shape), 1)
    here = places(op.results[0].shape)
    chosen = _wrapped(graph, graph.read(index, (here[dim],)), node.shape[dim])
    return graph.map(op.results[0].shape, graph.read(node, replaced(here, dim, chosen), partial=True))


def _embedding(state: Lowering, op: Op) -> Node:
    graph, table, index = state.graph, state.value(op.args[0]), state.value(op.args[1])
    *lead, last = places(op.results[0].shape)
    chosen = _wrapped(graph, graph.read(index, tuple(lead)), table.shape[0])
    return graph.map(op.results[0].shape, graph.read(table, (chosen, last), partial=True))


def _index(state: Lowering, op: Op) -> Node:
    """x[a, :, b] with whole numbers, broadcast against each other."""
    graph, node, given = state.graph, state.value(op.args[0]), op.args[1]
    assert isinstance(given, tuple)
    picks = {dim: state.value(each) for dim, each in enumerate(given) if each is not None}
    if any(pick.dtype == "bool" for pick in picks.values()):
        raise UnwritableError(f"{op.target} by a mask")
    shape = op.results[0].shape
    here = list(places(shape))
    count = max(len(pick.shape) for pick in picks.values())
    together = list(picks) == list(range(min(picks), max(picks) + 1))
    start = min(picks) if together else 0
    block, rest = here[start : start + count], iter(here[:start] + here[start + count :])
    indices = []
    for dim, extent in enumerate(node.shape):
        if dim not in picks:
            indices.append(next(rest))
            continue
        pick = picks[dim]
        own = tuple(
            number(0) if size == 1 else place
            for size, place in zip(pick.shape, block[count - len(pick.shape) :], strict=True)
        )
        indices.append(_wrapped(graph, graph.read(pick, own), extent))
    return graph.map(shape, graph.read(node, tuple(indices), partial=True))


def _one_hot(state: Lowering, op: Op) -> Node:
    graph, node, shape = state.graph, state.value(op.args[0]), op.results[0].shape
    *lead, last = places(shape)
    same = graph.element("eq", "bool", graph.read(node, tuple(lead)), graph.position(last))
    return graph.map(shape, graph.element("cast", "int64", same))


def _arange(state: Lowering, op: Op) -> Node:
    graph, result = state.graph, op.results[0]
    first = op.args[0] if len(op.args) > 1 else 0
    step = op.args[2] if len(op.args) > 2 else 1
    if not isinstance(first, int) or not isinstance(step, int):
        raise UnwritableError(f"{op.target} of numbers that are not whole")
    (axis,) = axes("i", result.shape)
    place = graph.position(along(axis) * step + first)
    return graph.map(result.shape, place if result.dtype == "int64" else graph.element("cast", result.dtype, place))


def _eye(state: Lowering, op: Op) -> Node:
    graph, result = state.graph, op.results[0]
    row, column = places(result.shape)
    one = graph.within(row - column, 1)
    return graph.map(result.shape, one if result.dtype == "bool" else graph.element("cast", result.dtype, one))


def _diagonal(state: Lowering, op: Op) -> Node:
    graph, node, shape = state.graph, state.value(op.args[0]), op.results[0].shape
    offset = integer(state.argument(op, 1, "offset") or 0, op)
    first = integer(state.argument(op, 2, "dim1"), op) % len(node.shape) if "diagonal" in op.target else 0
    second = integer(state.argument(op, 3, "dim2"), op) % len(node.shape) if "diagonal" in op.target else 1
    *lead, last = places(shape)
    rest = iter(lead)
    spots = {first: last + max(-offset, 0), second: last + max(offset, 0)}
    indices = tuple(spots[dim] if dim in spots else next(rest) for dim in range(len(node.shape)))
    return graph.map(shape, graph.read(node, indices, partial=True))


def _diag(state: Lowering, op: Op) -> Node:
    """A matrix's diagonal, or a vector as one."""
    return _diagonal(state, op) if len(state.value(op.args[0]).shape) == 2 else _diag_embed(state, op)


def _diag_embed(state: Lowering, op: Op) -> Node:
    """Matrices that are 0 but on a diagonal."""
    graph, node, shape = state.graph, state.value(op.args[0]), op.results[0].shape
    if op.args[2:] not in ((), (-2, -1)) or op.kwargs:
        raise UnwritableError(f"{op.target} into other dimensions than the last")
    offset = integer(state.argument(op, 1, "diagonal"), op)
    *lead, row, column = places(shape)
    on = graph.within(column - row - offset, 1)
    element = graph.read(node, (*lead, row + min(offset, 0)), partial=True)
    return graph.map(shape, graph.element("select", node.dtype, on, element, graph.const(0, node.dtype)))


def _unfold_windows(state: Lowering, op: Op) -> Node:
    """im2col: every window of an image as a column."""
    graph, node, shape = state.graph, state.operand(op.args[0], result_dtype(op)), op.results[0].shape
    size, apart, margin, step = (numbers(each, op) for each in op.args[1:5])
    width = node.shape[-1]
    across = (width + 2 * margin[1] - apart[1] * (size[1] - 1) - 1) // step[1] + 1
    *lead, row, column = places(shape)
    channel, tap = row // (size[0] * size[1]), row % (size[0] * size[1])
    y = column // across * step[0] + tap // size[1] * apart[0] - margin[0]
    x = column % across * step[1] + tap % size[1] * apart[1] - margin[1]
    return graph.map(shape, graph.read(node, (*lead, channel, y, x), partial=True))


def _scan(op_name: str) -> Callable[[Lowering, Op], Node]:
    def made(state: Lowering, op: Op) -> Node:
        node = state.operand(op.args[0], result_dtype(op))
        if not node.shape or node.uniform:
            raise UnwritableError(f"{op.target} of a number")
        return state.graph.scan(op_name, node, integer(op.args[1], op) % len(node.shape))

    return made


def _extent_of_result(state: Lowering, op: Op) -> Node:
    """repeat, tile: the whole again and again along each dimension."""
    graph, node, shape = state.graph, state.value(op.args[0]), op.results[0].shape
    lead = len(shape) - len(node.shape)
    indices = tuple(place % max(extent, 1) for place, extent in zip(places(shape)[lead:], node.shape, strict=True))
    return graph.map(shape, graph.read(node, indices))


def _repeat_interleave(state: Lowering, op: Op) -> Node:
    """Each element of one dimension several times."""
    graph, node, times, shape = state.graph, state.value(op.args[0]), op.args[1], op.results[0].shape
    dim, here = state.argument(op, 2, "dim"), places(shape)
    if not isinstance(times, int) or not isinstance(dim, int):
        raise UnwritableError(f"{op.target} without one number of repeats and one dimension")
    dim %= len(shape)
    return graph.map(shape, graph.read(node, replaced(here, dim, here[dim] // times)))


def _pixel_shuffle(state: Lowering, op: Op) -> Node:
    """Channels become neighbours in height and width."""
    graph, node, (factor,) = state.graph, state.value(op.args[0]), numbers(op.args[1], op)
    *lead, channel, row, column = places(op.results[0].shape)
    source = channel * factor**2 + row % factor * factor + column % factor
    return graph.map(op.results[0].shape, graph.read(node, (*lead, source, row // factor, column // factor)))


def _flip(state: Lowering, op: Op) -> Node:
    graph, node = state.graph, state.value(op.args[0])
    here = places(node.shape)
    for dim in (each % max(len(node.shape), 1) for each in numbers(op.args[1], op)):
        here = replaced(here, dim, here[dim] * -1 + (node.shape[dim] - 1)) if node.shape else here
    return graph.map(node.shape, graph.read(node, here))


def _unfold(state: Lowering, op: Op) -> Node:
    """Windows of one dimension, their elements as a new last one."""
    graph, node, (dim, _, step) = (
        state.graph,
        tensor_operand(state, op),
        (numbers(each, op)[0] for each in op.args[1:4]),
    )
    *here, last = places(op.results[0].shape)
    dim %= len(node.shape)
    return graph.map(op.results[0].shape, graph.read(node, replaced(tuple(here), dim, here[dim] * step + last)))


def _outer(state: Lowering, op: Op) -> Node:
    column, row = (state.operand(argument, result_dtype(op)) for argument in op.args[:2])
    return multiply(state, state.graph.reshape(column, (*column.shape, 1)), row)


_REARRANGED: dict[str, Lower] = {
    "repeat_interleave": _repeat_interleave, "pixel_shuffle": _pixel_shuffle, "flip": _flip, "unfold": _unfold,
    "repeat": _extent_of_result, "tile": _extent_of_result,
}  # fmt: skip
REARRANGED: dict[str, Lower] = {
    **{name: keeping_constants(lower) for name, lower in _REARRANGED.items()}, "outer": _outer, "ger": _outer,
}  # fmt: skip
MOVING: dict[str, Lower] = {
    **REARRANGED,
    "cat": _cat, "concat": _cat, "stack": _stack, "constant_pad_nd": _constant_pad, "pad": _other_pad,
    **dict.fromkeys((f"{mode}_pad{rank}d" for mode in ("reflection", "replication") for rank in (1, 2, 3)), _other_pad),
    "roll": _roll, "tril": _triangle(True), "triu": _triangle(False), "gather": _gather,
    "index_select": _index_select, "embedding": _embedding, "index": _index, "one_hot": _one_hot, "arange": _arange,
    "eye": _eye, "diagonal": _diagonal, "diag": _diag, "diag_embed": _diag_embed, "im2col": _unfold_windows,
    "cumsum": _scan("sum"), "cumprod": _scan("prod"),
}  # fmt: skip
