"""Losses that choose among classes or triplets, distances, and normalization by a batch's own statistics."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import Axis, Index, along, axes, computed, number, places
from knowledge.compiler.ir.nodes import Element, Value, Values, elements
from knowledge.compiler.lower.activations import ACTIVATIONS, Terms
from knowledge.compiler.lower.losses import MEAN, SUM, reduced
from knowledge.compiler.lower.lowering import Lower, Lowering
from knowledge.compiler.lower.moving import integer, triangle
from knowledge.compiler.lower.pointwise import result_dtype
from knowledge.compiler.lower.reductions import (
    REDUCTIONS,
    Rows,
    affine,
    dimensions,
    length,
    log_probabilities,
    normalized,
)
from knowledge.compiler.lower.scattering import LOOKED_THROUGH
from knowledge.compiler.problem import Argument, Op, Ref


def picked(graph: Values, operand: Node, dims: tuple[int, ...]) -> Node | None:
    """The sum over one dimension of `at == label ? x : 0`: x, where the label is inside; None for anything else."""
    if not isinstance(operand, Value) or operand.kind != "map" or len(dims) != 1 or operand.body is None:
        return None
    chosen, axis = operand.body, operand.axes[dims[0]]
    if chosen.op != "select" or chosen.args[2].kind != "const" or chosen.args[2].payload != (0.0,):
        return None
    conditions = list(_conjunction(chosen.args[0]))
    labels = [(each, label) for each in conditions if (label := _label(each, axis)) is not None]
    if len(labels) != 1 or axis.extent < 2:
        return None
    (told, label), others = labels[0], conditions
    rest = [each for each in others if each is not told]
    if any(_uses(each, axis) for each in (label, chosen.args[1], *rest)):
        return None
    kept = tuple(extent for dim, extent in enumerate(operand.shape) if dim != dims[0])
    outer = iter(axes("i", kept))
    places = {each: along(next(outer)) for each in operand.axes if each != axis}

    def moved(node: Node) -> Node:
        return graph.rewritten(node, places, lambda read: read)

    inside = graph.within(computed(moved(label)), axis.extent)
    for each in rest:
        inside = graph.element("and", "bool", moved(each), inside)
    return graph.map(kept, graph.element("select", operand.dtype, inside, moved(chosen.args[1]), chosen.args[2]))


def _conjunction(node: Node) -> Iterator[Node]:
    if node.op == "and" and node.dtype == "bool":
        for each in node.args:
            yield from _conjunction(each)
    else:
        yield node


def _label(node: Node, axis: Axis) -> Node | None:
    """What a condition compares the place along the axis with."""
    if node.op != "eq" or node.args[0].dtype != "int64":
        return None
    for one, other in (node.args, node.args[::-1]):
        if isinstance(one, Element) and one.kind == "position" and one.indices[0].alone == axis:
            return other
    return None


def _uses(node: Node, axis: Axis) -> bool:
    reads = (each for each in elements(node) if isinstance(each, Element))
    return any(index.uses(axis) for each in reads for index in each.indices)


def _chosen(state: Lowering, op: Op, scores: Node, dim: int) -> Node | tuple[Node, ...]:
    """-weight * the score of each target class, as nll_loss and cross_entropy_loss reduce it; then the weights' sum."""
    graph, target = state.graph, state.value(op.args[1])
    weight = state.argument(op, 2, "weight")
    wanted, ignored = state.argument(op, 3, "reduction"), state.argument(op, 4, "ignore_index")
    assert isinstance(ignored, int)
    here = places(target.shape)
    choice = graph.read(target, here)
    place = computed(choice)
    element = graph.read(scores, (*here[:dim], place, *here[dim:]), partial=True)
    dtype = scores.dtype
    lost = graph.element("neg", dtype, element)
    share: Node = graph.const(1.0, dtype)
    if weight is not None:
        share = graph.read(state.operand(weight, dtype), (place,), partial=True)
        lost = graph.element("mul", dtype, lost, share)
    counts = graph.element("ne", "bool", choice, graph.const(ignored, "int64"))
    none = graph.const(0.0, dtype)
    losses = graph.map(target.shape, graph.element("select", dtype, counts, lost, none))
    shares = graph.map(target.shape, graph.element("select", dtype, counts, share, none))
    made = reduced(state, losses, wanted, shares)
    if len(op.results) == 1:
        return made
    whole = wanted in (MEAN, SUM) and target.shape
    return made, reduced(state, shares, SUM) if whole else graph.const(0.0, dtype)


def _nll(state: Lowering, op: Op) -> Node | tuple[Node, ...]:
    scores = state.operand(op.args[0], result_dtype(op))
    return _chosen(state, op, scores, 1 if len(scores.shape) > 1 else 0)


def _cross_entropy(state: Lowering, op: Op) -> Node | tuple[Node, ...]:
    scores, target = state.operand(op.args[0], result_dtype(op)), state.value(op.args[1])
    dim = 1 if len(scores.shape) > 1 else 0
    logs = log_probabilities(Rows(state, scores, (dim,)))
    smoothing, weight = float(state.argument(op, 5, "label_smoothing") or 0.0), state.argument(op, 2, "weight")  # type: ignore[arg-type]
    classes, f, wanted = scores.shape[dim], Terms(state.graph, scores.dtype), state.argument(op, 3, "reduction")
    weighted = logs
    if weight is not None:
        by_class = (*(1,) * dim, classes, *(1,) * (len(scores.shape) - dim - 1))
        weighted = f("mul", logs, state.graph.reshape(state.operand(weight, scores.dtype), by_class))
    if target.dtype == scores.dtype:
        if smoothing:
            target = f("add", f("mul", target, 1 - smoothing), smoothing / classes)
        rows = Rows(state, f("mul", weighted, target), (dim,))
        lost = rows.result(f("neg", rows.reduce("sum")), False)
        return _mean_of_rows(state, lost, scores, classes, wanted)
    chosen = _chosen(state, op, logs, dim)
    if not smoothing:
        return chosen
    assert isinstance(chosen, Node)
    even = f("mul", _evenly(state, op, weighted, dim), smoothing / classes)
    return f("add", f("mul", chosen, 1 - smoothing), even)


def _mean_of_rows(state: Lowering, lost: Node, scores: Node, classes: int, wanted: Argument) -> Node:
    """A mean is over rows, of which a single one has no dimension."""
    assert classes * max(prod(lost.shape), 1) == prod(scores.shape) or not prod(scores.shape)
    return reduced(state, lost, wanted)


def _evenly(state: Lowering, op: Op, logs: Node, dim: int) -> Node:
    """The loss that all classes are the target of: the negative sum of a row's logarithms, but where it is ignored."""
    graph, target, dtype = state.graph, state.value(op.args[1]), logs.dtype
    rows = Rows(state, logs, (dim,))
    lost = rows.result(rows.f("neg", rows.reduce("sum")), False)
    choice = graph.read(target, here := places(target.shape))
    counts = graph.element(
        "ne", "bool", choice, graph.const(integer(state.argument(op, 4, "ignore_index"), op), "int64")
    )
    none = graph.const(0.0, dtype)
    losses = graph.map(target.shape, graph.element("select", dtype, counts, graph.read(lost, here), none))
    share: Node = graph.const(1.0, dtype)
    if (weight := state.argument(op, 2, "weight")) is not None:
        share = graph.read(state.operand(weight, dtype), (computed(choice),), partial=True)
    shares = graph.map(target.shape, graph.element("select", dtype, counts, share, none))
    wanted = state.argument(op, 3, "reduction")
    if wanted == MEAN and not target.shape:
        return graph.compute("div", dtype, losses, shares)
    return reduced(state, losses, wanted, shares)


def _distance(state: Lowering, one: Node, other: Node, p: float, eps: float) -> Node:
    f = Terms(state.graph, one.dtype)
    gap = f("add", f("sub", one, other), eps)
    rows = Rows(state, gap, (len(gap.shape) - 1,))
    return rows.result(length(rows, p), False)


def _cdist(state: Lowering, op: Op) -> Node:
    """Each row of one from each of the other, in batches that are broadcast."""
    graph, dtype, shape = state.graph, result_dtype(op), op.results[0].shape
    p = float(state.argument(op, 2, "p"))  # type: ignore[arg-type]
    *lead, row, column, inner = places((*shape, state.value(op.args[0]).shape[-1]))

    def spread(argument: Argument, place: Index) -> Node:
        node = state.operand(argument, dtype)
        own = lead[len(lead) - len(node.shape) + 2 :]
        outer = (number(0) if size == 1 else at for size, at in zip(node.shape[:-2], own, strict=True))
        return graph.map((*shape, node.shape[-1]), graph.read(node, (*outer, place, inner)))

    return _distance(state, spread(op.args[0], row), spread(op.args[1], column), p, 0.0)


def _pairs(state: Lowering, op: Op) -> Node:
    """pdist: the distance of every two rows, once each."""
    graph, node = state.graph, state.operand(op.args[0], result_dtype(op))
    count, columns = node.shape
    (pair,), inner = places(op.results[0].shape), along(axes("i", (*op.results[0].shape, columns))[1])
    both = triangle(graph, graph.position(pair), count, count, 1, low=False)
    wide = (*op.results[0].shape, columns)
    one, other = (graph.map(wide, graph.read(node, (computed(row), inner), partial=True)) for row in both)
    return _distance(state, one, other, float(state.argument(op, 1, "p")), 0.0)  # type: ignore[arg-type]


def _isin(state: Lowering, op: Op) -> Node:
    """Whether each element is among some others, which are all looked at."""
    graph, shape = state.graph, op.results[0].shape
    dtype = state.promoted(*op.args[:2])
    x, others = (state.operand(each, dtype) for each in op.args[:2])
    if prod(shape) * prod(others.shape) > LOOKED_THROUGH:
        raise UnwritableError(f"{op.target} among {prod(others.shape)} elements")
    x, others = (graph.expand(x, shape), graph.reshape(others, (prod(others.shape),)))
    other = graph.read(others, (along(axes("r", (prod(others.shape),))[0]),)) if others.shape else others
    same = graph.element("eq", "bool", graph.read(x, places(shape)), other)
    found = graph.fold("any", shape, (prod(others.shape),), same)
    return graph.compute("not", "bool", found) if state.argument(op, 3, "invert") is True else found


def _triplet(state: Lowering, op: Op) -> Node:
    """max(d(anchor, positive) - d(anchor, negative) + margin, 0)."""
    dtype = result_dtype(op)
    f, (anchor, near, far) = Terms(state.graph, dtype), (state.operand(each, dtype) for each in op.args[:3])
    margin, p, eps = (float(each) for each in op.args[3:6])  # type: ignore[arg-type]
    wide = _distance(state, anchor, far, p, eps)
    if state.argument(op, 6, "swap"):
        wide = f("minimum", wide, _distance(state, near, far, p, eps))
    lost = f("maximum", f("add", f("sub", _distance(state, anchor, near, p, eps), wide), margin), 0.0)
    return reduced(state, lost, state.argument(op, 7, "reduction"))


def _cosine_embedding(state: Lowering, op: Op) -> Node:
    """1 - cos where the target is 1, max(cos - margin, 0) where it is -1."""
    dtype = result_dtype(op)
    f, (x, y) = Terms(state.graph, dtype), (state.operand(each, dtype) for each in op.args[:2])
    target = state.operand(op.args[2], dtype)

    def dotted(one: Node, other: Node) -> Node:
        rows = Rows(state, f("mul", one, other), (len(one.shape) - 1,))
        return rows.result(rows.reduce("sum"), False)

    size = f("sqrt", f("mul", f("add", dotted(x, x), 1e-12), f("add", dotted(y, y), 1e-12)))
    cosine = f("div", dotted(x, y), size)
    margin = float(state.argument(op, 3, "margin"))  # type: ignore[arg-type]
    apart = f("maximum", f("sub", cosine, margin), 0.0)
    lost = f("select", f("eq", target, 1.0), f("sub", 1.0, cosine), f("select", f("eq", target, -1.0), apart, 0.0))
    return reduced(state, lost, state.argument(op, 4, "reduction"))


def _batch_norm(state: Lowering, op: Op) -> Node | tuple[Node, ...]:
    """By stored statistics elementwise; in training, and where none are stored, by the batch's own."""
    training = state.argument(op, 5, "training") is True
    if (not training and isinstance(op.args[3], Ref)) or "no_training" in op.target:
        made = ACTIVATIONS["batch_norm"](state, op)
        none = [state.graph.const(0.0, each.dtype) for each in op.results[1:] if not prod(each.shape)]
        return made if not none else (made, *none)  # type: ignore[arg-type]
    node = state.operand(op.args[0], result_dtype(op))
    rows = Rows(state, node, tuple(dim for dim in range(len(node.shape)) if dim != 1))
    eps = rows.f.number(float(state.argument(op, 7, "eps")))  # type: ignore[arg-type]
    channels = (node.shape[1], *(1,) * (len(node.shape) - 2))
    normal, scale = normalized(rows, eps)
    made = affine(rows, normal, op.args[1], op.args[2], channels)
    return made if len(op.results) == 1 else (made, rows.result(rows.mean(), False), rows.result(scale, False))


def _sum(state: Lowering, op: Op) -> Node | tuple[Node, ...]:
    """Of what is 0 but at a label, along the classes: what stands there; anything else as it is."""
    dims = state.argument(op, 1, "dim") if not op.target.endswith(".default") else None
    node = state.operand(op.args[0], result_dtype(op))
    made = picked(state.graph, node, dimensions(dims, len(node.shape)))
    return REDUCTIONS["sum"](state, op) if made is None else state.graph.reshape(made, op.results[0].shape)


CHOOSING: dict[str, Lower] = {
    **dict.fromkeys(("nll_loss", "nll_loss_nd", "nll_loss2d", "nll_loss_forward", "nll_loss2d_forward"), _nll),
    "cross_entropy_loss": _cross_entropy,
    "triplet_margin_loss": _triplet, "cosine_embedding_loss": _cosine_embedding, "batch_norm": _batch_norm,
    "native_batch_norm": _batch_norm, "sum": _sum, "cdist": _cdist, "_pdist_forward": _pairs,
    "isin": _isin,
}  # fmt: skip
