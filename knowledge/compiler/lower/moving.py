"""What moves, joins, picks or masks elements: all of it reads at other indices."""

from __future__ import annotations

from math import prod

from knowledge.compiler.ir.dtypes import is_float
from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import Index, computed, linear, number, places, unravelled
from knowledge.compiler.ir.nodes import Values
from knowledge.compiler.ir.strides import packed_strides
from knowledge.compiler.lower.lowering import Lower, Lowering
from knowledge.compiler.lower.pointwise import multiply, result_dtype
from knowledge.compiler.lower.views import keeping_constants, numbers
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
            indices.append((index + extent) % max(extent, 1))
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


def wrapped(graph: Values, element: Node, extent: int) -> Index:
    """A computed index; negative ones count from the end."""
    whole = element if element.dtype == "int64" else graph.element("cast", "int64", element)
    below = graph.element("lt", "bool", whole, graph.const(0, "int64"))
    turned = graph.element("add", "int64", whole, graph.const(extent, "int64"))
    return computed(graph.element("select", "int64", below, turned, whole))


def _gather(state: Lowering, op: Op) -> Node:
    graph, node, index = state.graph, state.value(op.args[0]), state.value(op.args[2])
    if not prod(index.shape):
        return graph.map(op.results[0].shape, graph.const(0, node.dtype))
    if not node.shape or not index.shape:  # either may lack its one dimension
        node, index = (graph.reshape(each, each.shape or (1,)) for each in (node, index))
    dim = integer(op.args[1], op) % len(node.shape)
    here = places(index.shape)
    chosen = wrapped(graph, graph.read(index, here), node.shape[dim])
    found = graph.map(index.shape, graph.read(node, replaced(here, dim, chosen), partial=True))
    return graph.reshape(found, op.results[0].shape)


def _take(state: Lowering, op: Op) -> Node:
    """Elements by their numbers in the whole."""
    graph, node, index = state.graph, state.value(op.args[0]), state.value(op.args[1])
    flat = graph.reshape(node, (prod(node.shape),))
    chosen = wrapped(graph, graph.read(index, places(index.shape)), flat.shape[0])
    return graph.map(index.shape, graph.read(flat, (chosen,), partial=True))


def _index_select(state: Lowering, op: Op) -> Node:
    """Rows by their numbers; of one number, and of a value without dimensions, as if these had one."""
    graph, node, index = state.graph, state.value(op.args[0]), state.value(op.args[2])
    if not node.shape:
        return graph.reshape(node, op.results[0].shape)
    dim = integer(op.args[1], op) % len(node.shape)
    here = places(op.results[0].shape)
    chosen = wrapped(graph, graph.read(index, (here[dim],) if index.shape else ()), node.shape[dim])
    return graph.map(op.results[0].shape, graph.read(node, replaced(here, dim, chosen), partial=True))


def _embedding(state: Lowering, op: Op) -> Node:
    graph, table, index = state.graph, state.value(op.args[0]), state.value(op.args[1])
    *lead, last = places(op.results[0].shape)
    chosen = wrapped(graph, graph.read(index, tuple(lead)), table.shape[0])
    return graph.map(op.results[0].shape, graph.read(table, (chosen, last), partial=True))


def _index(state: Lowering, op: Op) -> Node:
    """x[a, :, b] with whole numbers, broadcast against each other."""
    graph, node, given = state.graph, state.value(op.args[0]), op.args[1]
    assert isinstance(given, tuple)
    picks = {dim: state.value(each) for dim, each in enumerate(given) if each is not None}
    if any(pick.dtype == "bool" for pick in picks.values()):
        raise UnwritableError(
            f"{op.target} by a mask, which has as many elements as the mask sets: y[m] = f(y[m]) is "
            "y = torch.where(m, f(y), y)"
        )
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
        indices.append(wrapped(graph, graph.read(pick, own), extent))
    return graph.map(shape, graph.read(node, tuple(indices), partial=True))


def _one_hot(state: Lowering, op: Op) -> Node:
    graph, node, shape = state.graph, state.value(op.args[0]), op.results[0].shape
    *lead, last = places(shape)
    same = graph.element("eq", "bool", graph.read(node, tuple(lead)), graph.position(last))
    return graph.map(shape, graph.element("cast", "int64", same))


def _arange(state: Lowering, op: Op) -> Node:
    """Whole numbers, or start + i * step in float64 as PyTorch has it."""
    graph, result = state.graph, op.results[0]
    first = op.args[0] if len(op.args) > 1 else 0
    step = op.args[2] if len(op.args) > 2 else 1
    (place,) = places(result.shape)
    if isinstance(first, int) and isinstance(step, int):
        whole = graph.position(place * step + first)
        return graph.map(result.shape, whole if result.dtype == "int64" else graph.element("cast", result.dtype, whole))
    if not isinstance(first, int | float) or not isinstance(step, int | float):
        raise UnwritableError(f"{op.target} of numbers that are not known beforehand")
    kind = "float64" if is_float(result.dtype) else "int64"
    start, gap = state.operand(first, kind), state.operand(step, kind)
    count = graph.position(place)
    count = count if kind == "int64" else graph.element("cast", kind, count)
    made = graph.element("add", kind, start, graph.element("mul", kind, count, gap))
    return graph.map(result.shape, made if kind == result.dtype else graph.element("cast", result.dtype, made))


def _linspace(state: Lowering, op: Op) -> Node:
    """Up from the start in the first half, and down from the end in the other."""
    graph, result = state.graph, op.results[0]
    kind = "float64" if result.dtype == "float64" else "float32"
    (place,), (count,) = places(result.shape), result.shape
    first, last = (state.operand(each, kind) for each in op.args[:2])
    first, last = (each if each.uniform else graph.read(each, ()) for each in (first, last))
    gap = graph.element("sub", kind, last, first)
    step = graph.element("div", kind, gap, graph.const(float(max(count - 1, 1)), kind))

    def times(index: Index) -> Node:
        return graph.element("mul", kind, step, graph.element("cast", kind, graph.position(index)))

    low = graph.element("add", kind, first, times(place))
    high = graph.element("sub", kind, last, times(place * -1 + (count - 1)))
    made = graph.element("select", kind, graph.within(place, max(count // 2, 1)), low, high)
    return graph.map(result.shape, made if kind == result.dtype else graph.element("cast", result.dtype, made))


def _as_strided(state: Lowering, op: Op) -> Node:
    """Elements at strides in the memory of an operand that fills it without gaps."""
    graph, shape = state.graph, op.results[0].shape
    node, traced = state.value(op.args[0]), state.traced_of(op.args[0])
    if traced is None or traced.strides != packed_strides(traced.shape):
        raise UnwritableError(f"{op.target} of a view whose memory holds more than it")
    strides, offset = numbers(op.args[2], op), integer(state.argument(op, 3, "storage_offset") or 0, op)
    place = linear(places(shape), strides) + offset
    return graph.map(shape, graph.read(node, unravelled(place, node.shape), partial=True))


def triangle(graph: Values, place: Node, rows: int, columns: int, offset: int, *, low: bool) -> tuple[Node, Node]:
    """Row and column of the element that stands at a place of a matrix's lower or upper triangle, row by row."""

    def f(op: str, *args: Node | int) -> Node:
        nodes = (each if isinstance(each, Node) else graph.const(each, "int64") for each in args)
        return graph.element(op, "bool" if op in ("gt", "le") else "int64", *nodes)

    def up_to(last: Node) -> Node:
        """1 + 2 + ... + last; 0 where that is negative."""
        return f("select", f("gt", last, 0), f("truncated_divide", f("mul", last, f("add", last, 1)), 2), 0)

    first = offset + 1 if low else offset
    begun = [max(each, 0) * (max(each, 0) + 1) // 2 for each in (first - 1, first - 1 - columns)]

    def before(row: Node) -> Node:
        """How many elements stand in the rows before this one."""
        inside = f("sub", f("sub", up_to(f("add", row, first - 1)), up_to(f("add", row, first - 1 - columns))),
                   begun[0] - begun[1])  # fmt: skip
        return inside if low else f("sub", f("mul", row, columns), inside)

    row: Node = graph.const(0, "int64")
    step = 1 << rows.bit_length() >> 1
    while step:
        further = f("add", row, step)
        taken = graph.element("and", "bool", f("le", further, rows - 1), f("le", before(further), place))
        row = f("select", taken, further, row)
        step >>= 1
    start = graph.const(0, "int64") if low else f("minimum", f("maximum", f("add", row, offset), 0), columns)
    return row, f("add", f("sub", place, before(row)), start)


def _triangle_indices(*, low: bool) -> Lower:
    """Rows and columns of a matrix's lower or upper triangle, row by row."""

    def made(state: Lowering, op: Op) -> Node:
        graph, result = state.graph, op.results[0]
        rows, columns = (integer(each, op) for each in op.args[:2])
        offset = integer(state.argument(op, 2, "offset"), op)
        which, place = places(result.shape)
        row, column = triangle(graph, graph.position(place), rows, columns, offset, low=low)
        found = graph.element("select", "int64", graph.within(which, 1), row, column)
        return graph.map(result.shape, found if result.dtype == "int64" else graph.element("cast", result.dtype, found))

    return made


def _diagonal_scatter(state: Lowering, op: Op) -> Node:
    """A diagonal replaced: (whole, part, offset, dim1, dim2)."""
    graph, shape, dtype = state.graph, op.results[0].shape, result_dtype(op)
    base, part = (state.operand(each, dtype) for each in op.args[:2])
    offset = integer(state.argument(op, 2, "offset"), op)
    first, second = (integer(state.argument(op, at, name), op) % len(shape) for at, name in ((3, "dim1"), (4, "dim2")))
    here = places(shape)
    on = graph.within(here[second] - here[first] - offset, 1)
    lead = [place for dim, place in enumerate(here) if dim not in (first, second)]
    element = graph.read(part, (*lead, here[first] + min(offset, 0)), partial=True)
    return graph.map(shape, graph.element("select", dtype, on, element, graph.read(base, here)))


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
    offset = integer(state.argument(op, 1, "diagonal"), op)
    embeds = "embed" in op.target
    first, second = (
        integer(state.argument(op, at, name) if embeds else last, op) % len(shape)
        for at, name, last in ((2, "dim1", -2), (3, "dim2", -1))
    )
    here = places(shape)
    lead = [place for dim, place in enumerate(here) if dim not in (first, second)]
    on = graph.within(here[second] - here[first] - offset, 1)
    element = graph.read(node, (*lead, here[first] + min(offset, 0)), partial=True)
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
    if not isinstance(times, int):
        raise UnwritableError(f"{op.target} without one number of repeats")
    if not isinstance(dim, int):
        node, dim = graph.reshape(node, (prod(node.shape),)), 0
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
        state.value(op.args[0]),
        (numbers(each, op)[0] for each in op.args[1:4]),
    )
    if not node.shape:
        return graph.map(op.results[0].shape, graph.read(node, ()))
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
    "roll": _roll, "tril": _triangle(True), "triu": _triangle(False), "gather": _gather, "take": _take,
    "index_select": _index_select, "embedding": _embedding, "index": _index, "one_hot": _one_hot, "arange": _arange,
    "eye": _eye, "diagonal": _diagonal, "diag": _diag, "diag_embed": _diag_embed, "im2col": _unfold_windows,
    "as_strided": _as_strided, "tril_indices": _triangle_indices(low=True),
    "triu_indices": _triangle_indices(low=False),
    "as_strided_copy": _as_strided, "diagonal_scatter": _diagonal_scatter, "linspace": _linspace,
}  # fmt: skip
