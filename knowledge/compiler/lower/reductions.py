"""Reductions and normalizations as sums, extrema and the elementwise steps between them."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod

from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.lower.activations import ACTIVATIONS, Terms
from knowledge.compiler.lower.lowering import Lower, Lowering, dtype_argument
from knowledge.compiler.lower.pointwise import multiply, reciprocal_root, result_dtype
from knowledge.compiler.lower.views import tensor_operand
from knowledge.compiler.problem import Argument, Op

# The machine epsilons that torch takes where a norm's eps is not given.
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


def dimensions(argument: Argument, rank: int) -> tuple[int, ...]:
    """The reduced dimensions, non-negative and sorted; all of them where none is given."""
    if argument is None or argument == ():
        return tuple(range(rank))
    given = argument if isinstance(argument, tuple) else (argument,)
    if not all(isinstance(dim, int) for dim in given):
        raise UnwritableError("a reduction over dimensions that are not known beforehand")
    if not rank:  # of one number, dimension 0 and -1 are no dimension
        return ()
    return tuple(sorted(int(dim) % rank for dim in given))  # type: ignore[arg-type]


class Rows:
    """A value and the dimensions it is reduced over. Its methods keep those dimensions, with extent 1."""

    def __init__(self, state: Lowering, node: Node, dims: tuple[int, ...]) -> None:
        if node.uniform:
            raise UnwritableError("a reduction of a constant")
        self.state = state
        self.node = node
        self.dims = dims
        self.f = Terms(state.graph, node.dtype)
        self.count = prod(node.shape[dim] for dim in dims)

    def reduce(self, op: str, node: Node | None = None, dtype: str = "") -> Node:
        """Reduce the value, or `node` of the same shape."""
        operand = self.node if node is None else node
        return self.state.graph.reduce(op, dtype or operand.dtype, operand, self.dims, keepdim=True)

    def mean(self, node: Node | None = None) -> Node:
        """The arithmetic mean."""
        return self.f("div", self.reduce("sum", node), self.count)

    def centred(self) -> Node:
        """The value less its mean."""
        return self.f("sub", self.node, self.mean())

    def variance(self, correction: float) -> Node:
        """Mean square of the centred value: two passes, so nothing cancels."""
        centred = self.centred()
        total = self.reduce("sum", self.f("mul", centred, centred))
        return self.f(
            "div", total, max(self.count - (int(correction) if correction == int(correction) else correction), 0)
        )

    def result(self, node: Node, keepdim: Argument) -> Node:
        """Drop the reduced dimensions unless they are to be kept."""
        if keepdim:
            return node
        kept = tuple(extent for dim, extent in enumerate(self.node.shape) if dim not in self.dims)
        return self.state.graph.reshape(node, kept)


def _rows(state: Lowering, op: Op, dims: Argument, dtype: str = "") -> Rows:
    node = state.operand(op.args[0], dtype or result_dtype(op))
    return Rows(state, node, dimensions(dims, len(node.shape)))


def _plain(kind: str, dtype: str = "") -> Lower:
    """sum, amax, amin, prod, any, all: (x, dims, keepdim)."""

    def lower(state: Lowering, op: Op) -> Node:
        has_dims = not op.target.endswith(".default") or kind in ("amax", "amin")
        dims = state.argument(op, 1, "dim") if has_dims else None
        rows = _rows(state, op, dims, dtype)
        return rows.result(rows.reduce(kind), state.argument(op, 2, "keepdim") if has_dims else False)

    return lower


def _mean(state: Lowering, op: Op) -> Node:
    has_dims = not op.target.endswith(".default")
    rows = _rows(state, op, state.argument(op, 1, "dim") if has_dims else None)
    return rows.result(rows.mean(), state.argument(op, 2, "keepdim") if has_dims else False)


def _extremum(kind: str) -> Callable[[Lowering, Op], Node | tuple[Node, ...]]:
    """max and min: of everything, along a dimension with the indices, or of two tensors."""

    def lower(state: Lowering, op: Op) -> Node | tuple[Node, ...]:
        if op.target.endswith(".other"):
            dtype = result_dtype(op)
            name = {"amax": "maximum", "amin": "minimum"}[kind]
            return state.graph.compute(name, dtype, *(state.operand(arg, dtype) for arg in op.args[:2]))
        if op.target.endswith(".default"):
            rows = _rows(state, op, None)
            return rows.result(rows.reduce(kind), False)
        rows = _rows(state, op, state.argument(op, 1, "dim"))
        keepdim = state.argument(op, 2, "keepdim")
        indices = rows.reduce(kind.replace("a", "arg", 1), dtype="int64")
        return rows.result(rows.reduce(kind), keepdim), rows.result(indices, keepdim)

    return lower


def _index(kind: str) -> Lower:
    def lower(state: Lowering, op: Op) -> Node:
        node = state.value(op.args[0])
        rows = Rows(state, node, dimensions(state.argument(op, 1, "dim"), len(node.shape)))
        return rows.result(rows.reduce(kind, dtype="int64"), state.argument(op, 2, "keepdim"))

    return lower


def _variance(root: bool, with_mean: bool = False) -> Callable[[Lowering, Op], Node | tuple[Node, ...]]:
    def lower(state: Lowering, op: Op) -> Node | tuple[Node, ...]:
        plain = op.target.endswith((".default", "var", "std"))
        dims = None if plain else state.argument(op, 1, "dim")
        keepdim = False if plain else state.argument(op, 3, "keepdim")
        given = op.kwargs.get("correction", state.argument(op, 1 if plain else 2, "unbiased"))
        correction = 1.0 if given is None else float(given)  # type: ignore[arg-type]
        rows = _rows(state, op, dims)
        spread = rows.variance(correction)
        spread = rows.f("sqrt", spread) if root else spread
        result = rows.result(spread, keepdim)
        return (result, rows.result(rows.mean(), keepdim)) if with_mean else result

    return lower


def _exponentials(rows: Rows) -> tuple[Node, Node]:
    """x - max and e to that power: the largest exponent is 0."""
    shifted = rows.f("sub", rows.node, rows.reduce("amax"))
    return shifted, rows.f("exp", shifted)


def _softmax(state: Lowering, op: Op) -> Node:
    rows = _rows(state, op, op.args[1], dtype_argument(state.argument(op, 2, "dtype"), result_dtype(op)))
    _, powers = _exponentials(rows)
    return rows.f("div", powers, rows.reduce("sum", powers))


def _safe_softmax(state: Lowering, op: Op) -> Node:
    """A row that is -inf throughout, which attends to nothing, is 0."""
    made = _softmax(state, op)
    rows = Rows(state, state.operand(op.args[0], made.dtype), dimensions(op.args[1], len(made.shape)))
    return rows.f("select", rows.f("eq", rows.reduce("amax"), -math.inf), 0.0, made)


def _log_softmax(state: Lowering, op: Op) -> Node:
    return log_probabilities(
        _rows(state, op, op.args[1], dtype_argument(state.argument(op, 2, "dtype"), result_dtype(op)))
    )


def log_probabilities(rows: Rows) -> Node:
    """x - max less the logarithm of the sum of its exponentials."""
    shifted, powers = _exponentials(rows)
    return rows.f("sub", shifted, rows.f("log", rows.reduce("sum", powers)))


def _logsumexp(state: Lowering, op: Op) -> Node:
    rows = _rows(state, op, op.args[1])
    f = rows.f
    largest = rows.reduce("amax")
    largest = f("select", f("eq", f("abs", largest), math.inf), f.number(0.0), largest)
    total = rows.reduce("sum", f("exp", f("sub", rows.node, largest)))
    return rows.result(f("add", f("log", total), largest), state.argument(op, 2, "keepdim"))


def _norm(state: Lowering, op: Op) -> Node:
    """norm(x, p, dims, keepdim), linalg_vector_norm and linalg_norm(x, ord, dims, keepdim) of any order."""
    order = state.argument(op, 1, "ord" if "linalg" in op.target else "p")
    rows = _rows(state, op, state.argument(op, 2, "dim"))
    if op.target.startswith("aten.linalg_norm") and order is not None and len(rows.dims) == 2:
        raise UnwritableError(f"{op.target} of a matrix, of order {order}")
    return rows.result(length(rows, order), state.argument(op, 3, "keepdim"))


def length(rows: Rows, order: Argument) -> Node:
    """The norm of order 2 (where none is given), 0 (elements that are not zero), infinity or any other."""
    f, size = rows.f, rows.f("abs", rows.node)
    if order in (2, None):
        return f("sqrt", rows.reduce("sum", f("mul", rows.node, rows.node)))
    if order in (math.inf, -math.inf):
        return rows.reduce("amax" if order == math.inf else "amin", size)
    if order == 0:
        return rows.reduce("sum", f("select", f("ne", rows.node, 0.0), f.number(1.0), f.number(0.0)))
    if not isinstance(order, int | float):
        raise UnwritableError(f"a norm of order {order}")
    if order == 1:
        return rows.reduce("sum", size)
    return f("pow", rows.reduce("sum", f("pow", size, float(order))), 1.0 / order)


def _frobenius(state: Lowering, op: Op) -> Node:
    """Of matrices: linalg_matrix_norm(x, "fro", dims, keepdim) and frobenius_norm(x, dims, keepdim)."""
    given = 1 if op.target.startswith("aten.frobenius") else 2
    if given == 2 and state.argument(op, 1, "ord") != "fro":
        raise UnwritableError(f"{op.target} other than Frobenius' norm")
    rows = _rows(state, op, state.argument(op, given, "dim"))
    return rows.result(length(rows, 2), state.argument(op, given + 1, "keepdim"))


def _both_extrema(state: Lowering, op: Op) -> tuple[Node, ...]:
    rows = _rows(state, op, op.kwargs.get("dim"))
    return tuple(rows.result(rows.reduce(kind), op.kwargs["keepdim"]) for kind in ("amin", "amax"))


def _count_nonzero(state: Lowering, op: Op) -> Node:
    flags = state.cast(state.operand(op.args[0], "bool"), "int64")
    rows = Rows(state, flags, dimensions(state.argument(op, 1, "dim"), len(flags.shape)))
    return rows.result(rows.reduce("sum"), False)


def _cosine(state: Lowering, op: Op) -> Node:
    """The dot product over both lengths, none of them taken shorter than eps."""
    dtype = result_dtype(op)
    graph = state.graph
    both = [state.operand(argument, dtype) for argument in op.args[:2]]
    product = multiply(state, *both)
    rows = Rows(state, product, dimensions(state.argument(op, 2, "dim"), len(product.shape)))
    eps = rows.f.number(float(state.argument(op, 3, "eps")))  # type: ignore[arg-type]
    lengths = [
        rows.f("maximum", rows.f("sqrt", rows.reduce("sum", multiply(state, wide, wide))), eps)
        for wide in (graph.expand(each, product.shape) for each in both)
    ]
    made = rows.f("div", rows.f("div", rows.reduce("sum"), lengths[0]), lengths[1])
    return rows.result(made, False)


def _distance(state: Lowering, op: Op) -> Node:
    """pairwise_distance: the norm of x - y + eps along the last dimension."""
    dtype = result_dtype(op)
    f = Terms(state.graph, dtype)
    eps = state.operand(state.argument(op, 3, "eps"), dtype)
    gap = f("add", f("sub", *(state.operand(argument, dtype) for argument in op.args[:2])), eps)
    rows = Rows(state, gap, (len(gap.shape) - 1,))
    return rows.result(length(rows, state.argument(op, 2, "p")), state.argument(op, 4, "keepdim"))


def _trailing(state: Lowering, op: Op) -> Rows:
    """The rows that layer_norm and rms_norm work on: the last dimensions, as many as `normalized_shape` has."""
    shape = op.args[1]
    if not isinstance(shape, tuple):
        raise UnwritableError(f"{op.target} over a shape that is not known beforehand")
    node = state.operand(op.args[0], result_dtype(op))
    rank = len(node.shape)
    return Rows(state, node, tuple(range(rank - len(shape), rank)))


def normalized(rows: Rows, eps: Node) -> tuple[Node, Node]:
    """The centred value over its standard deviation, and 1 / that."""
    scale = reciprocal_root(rows.state, rows.f("add", rows.variance(0.0), eps))
    return rows.f("mul", rows.centred(), scale), scale


def affine(rows: Rows, node: Node, weight: Argument, bias: Argument, shape: tuple[int, ...] = ()) -> Node:
    """weight * x + bias, both under a shape where one is given."""
    for name, argument in (("mul", weight), ("add", bias)):
        if argument is not None:
            vector = rows.state.operand(argument, node.dtype)
            node = rows.f(name, node, rows.state.graph.reshape(vector, shape) if shape else vector)
    return node


def _layer_norm(state: Lowering, op: Op) -> Node | tuple[Node, ...]:
    rows = _trailing(state, op)
    eps = state.operand(state.argument(op, 4, "eps"), rows.node.dtype)
    normal, scale = normalized(rows, eps)
    result = affine(rows, normal, state.argument(op, 2, "weight"), state.argument(op, 3, "bias"))
    return (result, rows.mean(), scale) if len(op.results) == 3 else result


def _rms_norm(state: Lowering, op: Op) -> Node:
    rows = _trailing(state, op)
    given = state.argument(op, 3, "eps")
    eps = rows.f.number(EPSILON[rows.node.dtype]) if given is None else state.operand(given, rows.node.dtype)
    square = rows.mean(rows.f("mul", rows.node, rows.node))
    normal = rows.f("mul", rows.node, reciprocal_root(state, rows.f("add", square, eps)))
    return affine(rows, normal, state.argument(op, 2, "weight"), None)


def _instance_norm(state: Lowering, op: Op) -> Node:
    """Each channel of each image by its own statistics, or by running ones as a batch norm."""
    if state.argument(op, 5, "use_input_stats") is not True:
        return ACTIVATIONS["batch_norm"](state, op)  # type: ignore[return-value]
    node = state.operand(op.args[0], result_dtype(op))
    rows = Rows(state, node, tuple(range(2, len(node.shape))))
    eps = state.operand(state.argument(op, 7, "eps"), node.dtype)
    channels = (node.shape[1], *(1,) * (len(node.shape) - 2))
    return affine(rows, normalized(rows, eps)[0], op.args[1], op.args[2], channels)


def _group_norm(state: Lowering, op: Op) -> Node | tuple[Node, ...]:
    """(input, groups, weight, bias, eps): each group of channels of each image by its own statistics.

    native_group_norm has the sizes in between, and returns means and reciprocal roots, too.
    """
    native = len(op.results) == 3
    if native:
        op = op.model_copy(update={"args": (op.args[0], op.args[6], *op.args[1:3], op.args[7])})
    whole, groups = tensor_operand(state, op), op.args[1]
    if not isinstance(groups, int):
        raise UnwritableError(f"{op.target} with a number of groups that is not known beforehand")
    images, channels, *places = whole.shape
    node = state.graph.reshape(whole, (images, groups, channels // groups, *places))
    rows = Rows(state, node, tuple(range(2, len(node.shape))))
    eps = state.operand(state.argument(op, 4, "eps"), node.dtype)
    normal, scale = normalized(rows, eps)
    shape = (groups, channels // groups, *(1,) * len(places))
    normal = affine(rows, normal, state.argument(op, 2, "weight"), state.argument(op, 3, "bias"), shape)
    result = state.graph.reshape(normal, whole.shape)
    return (result, rows.result(rows.mean(), False), rows.result(scale, False)) if native else result


def _truth(kind: str) -> Lower:
    """Of bytes the result is a byte, 0 or 1, and each is a truth of its own: 1 & 2 is 0."""
    lower = _plain(kind, "bool")
    return lambda state, op: state.cast(lower(state, op), result_dtype(op))  # type: ignore[arg-type]


REDUCTIONS: dict[str, Lower] = {
    "sum": _plain("sum"), "prod": _plain("prod"), "amax": _plain("amax"), "amin": _plain("amin"),
    "any": _truth("any"), "all": _truth("all"), "mean": _mean, "max": _extremum("amax"), "min": _extremum("amin"),
    "argmax": _index("argmax"), "argmin": _index("argmin"), "var": _variance(root=False),
    "std": _variance(root=True), "var_mean": _variance(root=False, with_mean=True),
    "std_mean": _variance(root=True, with_mean=True), "softmax": _softmax, "_softmax": _softmax,
    "_safe_softmax": _safe_softmax,
    "log_softmax": _log_softmax, "_log_softmax": _log_softmax, "logsumexp": _logsumexp,
    "linalg_vector_norm": _norm, "norm": _norm, "layer_norm": _layer_norm, "native_layer_norm": _layer_norm,
    "rms_norm": _rms_norm, "instance_norm": _instance_norm, "group_norm": _group_norm, "native_group_norm": _group_norm,
    "linalg_norm": _norm, "linalg_matrix_norm": _frobenius, "frobenius_norm": _frobenius,
    "aminmax": _both_extrema, "count_nonzero": _count_nonzero, "cosine_similarity": _cosine,
    "pairwise_distance": _distance,
}  # fmt: skip
