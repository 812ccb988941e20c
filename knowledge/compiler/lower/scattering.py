"""What goes where an index says, gathered: each element looks for what is sent to it, and sums it in one order."""

from __future__ import annotations

from math import prod

from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import along, axes, computed, number, places
from knowledge.compiler.ir.nodes import Values
from knowledge.compiler.lower.losses import MEAN
from knowledge.compiler.lower.lowering import Lower, Lowering
from knowledge.compiler.lower.moving import integer, replaced
from knowledge.compiler.lower.pointwise import result_dtype
from knowledge.compiler.problem import Op

# Elements that may be looked through in all for what belongs to each result.
LOOKED_THROUGH = 1 << 34
# Places of a row that are replaced one after the other.
FEW = 16


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


def _looked_through(state: Lowering, op: Op, index: Node, node: Node, dim: int, base: Node | None) -> Node:
    """Each row along `dim` the sum of those of `node` whose `index` is its own, which are all looked at."""
    graph, shape, dtype = state.graph, op.results[0].shape, result_dtype(op)
    if prod(shape) * prod(index.shape) > LOOKED_THROUGH:
        raise UnwritableError(f"{op.target} of {prod(index.shape)} indices into {prod(shape)} elements")
    here, steps = places(shape), tuple(map(along, axes("r", index.shape)))
    whole = graph.read(index, steps)
    whole = whole if whole.dtype == "int64" else graph.element("cast", "int64", whole)
    mine = graph.element("eq", "bool", whole, graph.position(here[dim]))
    due = graph.read(node, (*here[:dim], *steps, *here[dim + 1 :]))
    made = graph.fold("sum", shape, index.shape, graph.element("select", dtype, mine, due, graph.const(0.0, dtype)))
    return made if base is None or _is_zero(base) else graph.compute("add", dtype, base, made)


def _is_zero(node: Node) -> bool:
    return node.kind == "const" and node.payload[0] == 0


def _embedding(state: Lowering, op: Op) -> Node:
    """Of each row of the table, the sum over the places that read it."""
    grad, index = state.operand(op.args[0], result_dtype(op)), state.value(op.args[1])
    padding = integer(op.args[3], op)
    if op.args[4] is True:
        raise UnwritableError(f"{op.target} scaled by how often each row is read")
    made = _looked_through(state, op, index, grad, 0, None)
    if padding < 0:
        return made
    graph, (row, column) = state.graph, places(made.shape)
    kept = graph.element("ne", "bool", graph.position(row), graph.const(padding, "int64"))
    none = graph.const(0.0, made.dtype)
    return graph.map(made.shape, graph.element("select", made.dtype, kept, graph.read(made, (row, column)), none))


def _index_add(state: Lowering, op: Op) -> Node:
    dtype = result_dtype(op)
    base, node = state.operand(op.args[0], dtype), state.operand(op.args[3], dtype)
    if op.kwargs["alpha"] != 1:
        raise UnwritableError(f"{op.target} with a factor")
    return _looked_through(state, op, state.value(op.args[2]), node, integer(op.args[1], op) % len(node.shape), base)


def _index_put(state: Lowering, op: Op) -> Node:
    """Rows added where one tensor of whole numbers says."""
    dtype, given = result_dtype(op), op.args[1]
    assert isinstance(given, tuple)
    picks = [dim for dim, each in enumerate(given) if each is not None]
    if state.argument(op, 3, "accumulate") is not True or len(picks) != 1:
        raise UnwritableError(op.target)
    base, node, index = state.operand(op.args[0], dtype), state.operand(op.args[2], dtype), state.value(given[picks[0]])
    if index.dtype == "bool":
        raise UnwritableError(f"{op.target} by a mask")
    return _looked_through(state, op, index, node, picks[0], base)


def _scatter_add(state: Lowering, op: Op) -> Node:
    """Each place the sum of what its row's indices send there."""
    graph, shape, dtype = state.graph, op.results[0].shape, result_dtype(op)
    base, index, node = state.operand(op.args[0], dtype), state.value(op.args[2]), state.operand(op.args[3], dtype)
    dim = integer(op.args[1], op) % max(len(shape), 1)
    count = index.shape[dim]
    if prod(shape) * count > LOOKED_THROUGH:
        raise UnwritableError(f"{op.target} of {count} indices into each of {prod(shape)} elements")
    here = places(shape)
    step = replaced(here, dim, along(axes("r", (count,))[0]))
    mine = graph.element("eq", "bool", graph.read(index, step, partial=True), graph.position(here[dim]))
    for index_here, extent in zip(here, index.shape, strict=True):
        if index_here != here[dim]:
            mine = graph.element("and", "bool", graph.within(index_here, extent), mine)
    due = graph.element("select", dtype, mine, graph.read(node, step, partial=True), graph.const(0.0, dtype))
    made = graph.fold("sum", shape, (count,), due)
    return made if _is_zero(base) else graph.compute("add", dtype, base, made)


def _scatter(state: Lowering, op: Op) -> Node:
    """A few places of each row are replaced: indices say which, and of equal ones the last counts."""
    graph, shape, dtype = state.graph, op.results[0].shape, result_dtype(op)
    base, index = state.operand(op.args[0], dtype), state.value(op.args[2])
    dim = integer(op.args[1], op) % max(len(shape), 1)
    count = index.shape[dim] if len(index.shape) == len(shape) else 0
    if index.shape != (*shape[:dim], count, *shape[dim + 1 :]) or count > FEW:
        raise UnwritableError(f"{op.target} to {count or 'several'} places of a row")
    here, given = places(shape), state.operand(op.args[3], dtype)
    body = graph.read(base, here)
    for each in range(count):
        place = replaced(here, dim, number(each))
        put = graph.read(given, place) if given.shape else given
        mine = graph.element("eq", "bool", graph.read(index, place), graph.position(here[dim]))
        body = graph.element("select", dtype, mine, put, body)
    return graph.map(shape, body)


def _slice_scatter(state: Lowering, op: Op) -> Node:
    """A slice replaced: (whole, part, dim, start, end, step)."""
    graph, shape, dtype = state.graph, op.results[0].shape, result_dtype(op)
    base, part = (state.operand(each, dtype) for each in op.args[:2])
    dim = integer(state.argument(op, 2, "dim"), op) % len(shape)
    start, step = integer(state.argument(op, 3, "start") or 0, op), integer(state.argument(op, 5, "step"), op)
    start = max(start + shape[dim], 0) if start < 0 else min(start, shape[dim])
    return _put(graph, base, part, dim, start, step, op)


def _put(graph: Values, base: Node, part: Node, dim: int, start: int, step: int, op: Op) -> Node:
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
    return _put(graph, base, wide, dim, integer(op.args[3], op) % shape[dim], 1, op)


SCATTERING: dict[str, Lower] = {
    "nll_loss_backward": _nll, "nll_loss2d_backward": _nll, "embedding_dense_backward": _embedding,
    "index_add": _index_add, "index_put": _index_put, "scatter": _scatter, "scatter_add": _scatter_add,
    "slice_scatter": _slice_scatter, "select_scatter": _select_scatter,
}  # fmt: skip
