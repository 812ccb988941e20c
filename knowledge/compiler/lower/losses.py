"""Losses: a distance between a prediction and its target at each element, then its mean, its sum, or neither."""

from __future__ import annotations

import math
from collections.abc import Callable

from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.lower.activations import Terms
from knowledge.compiler.lower.lowering import Lower, Lowering
from knowledge.compiler.lower.pointwise import result_dtype
from knowledge.compiler.lower.reductions import Rows
from knowledge.compiler.problem import Argument, Op

# PyTorch bounds a logarithm in binary_cross_entropy from below, so that a certain miss costs a finite amount.
LEAST_LOG = -100.0
# PyTorch's numbers for what becomes of the values.
MEAN, SUM = 1, 2


class Operands:
    """What a distance is made of: arithmetic in the loss's type, its prediction, its target, its other arguments."""

    def __init__(self, state: Lowering, op: Op) -> None:
        self.state, self.op = state, op
        self.f = Terms(state.graph, result_dtype(op))
        self.x, self.y = self.tensor(0), self.tensor(1)

    def tensor(self, position: int) -> Node:
        """An operand in the loss's type."""
        return self.state.operand(self.op.args[position], self.f.dtype)

    def optional(self, position: int, name: str) -> Node | None:
        """A tensor that may have been left out."""
        given = self.state.argument(self.op, position, name)
        return None if given is None else self.state.operand(given, self.f.dtype)

    def number(self, position: int, name: str) -> float:
        """A number; raises `UnwritableError` where it is not known beforehand."""
        given = self.state.argument(self.op, position, name)
        if not isinstance(given, int | float):
            raise UnwritableError(f"{self.op.target} whose {name} is not a plain number")
        return given

    def gap(self) -> Node:
        """Prediction less target."""
        return self.f("sub", self.x, self.y)

    def at_least(self, node: Node, bound: float) -> Node:
        """The value, or the bound where it is below; NaN stays NaN."""
        return self.f("maximum", node, bound)


Distance = Callable[[Operands], Node]


def loss(distance: Distance, reduction: int = 2) -> Lower:
    """The loss of a distance. Argument number `reduction` says 0 for none, 1 for the mean, 2 for the sum."""

    def lower(state: Lowering, op: Op) -> Node:
        return reduced(state, distance(Operands(state, op)), state.argument(op, reduction, "reduction"))

    return lower


def reduced(state: Lowering, node: Node, wanted: Argument, weights: Node | None = None) -> Node:
    """The values themselves, their sum, or their mean: by `weights` where such are given."""
    if wanted not in (MEAN, SUM) or not node.shape:
        return node
    rows = Rows(state, node, tuple(range(len(node.shape))))
    if wanted == MEAN and weights is None:
        return rows.result(rows.mean(), False)
    total = rows.reduce("sum")
    return rows.result(total if wanted == SUM else rows.f("div", total, rows.reduce("sum", weights)), False)


def _rounded_off(o: Operands, edge: float, slope: float) -> Node:
    """slope * (|x - y| - edge / 2), below the edge the parabola that meets it there."""
    f, gap = o.f, o.gap()
    size = f("abs", gap)
    near = f("mul", f("mul", gap, gap), 0.5 * slope / edge if edge else 0.0)
    return f("select", f("lt", size, edge), near, f("mul", f("sub", size, 0.5 * edge), slope))


def _divergence(o: Operands) -> Node:
    """y (log y - x), 0 where y is; or with log y given, e^y (y - x)."""
    f = o.f
    if o.op.kwargs["log_target"]:
        return f("mul", f("exp", o.y), f("sub", o.y, o.x))
    own = f("select", f("eq", o.y, 0.0), f.number(0.0), f("mul", o.y, f("log", o.y)))
    return f("sub", own, f("mul", o.y, o.x))


def _weighted(o: Operands, node: Node) -> Node:
    weight = o.optional(2, "weight")
    return node if weight is None else o.f("mul", node, weight)


def _binary(o: Operands) -> Node:
    f = o.f
    miss = o.at_least(f("log1p", f("neg", o.x)), LEAST_LOG)
    hit = o.at_least(f("log", o.x), LEAST_LOG)
    return _weighted(o, f("sub", f("mul", f("sub", o.y, 1.0), miss), f("mul", o.y, hit)))


def _binary_of_logits(o: Operands) -> Node:
    """(1 - y) x - log sigmoid(x), whose second part counts `pos_weight` times where y is 1."""
    f = o.f
    hit = f("sub", f("minimum", o.x, 0.0), f("log1p", f("exp", f("neg", f("abs", o.x)))))
    positive = o.optional(3, "pos_weight")
    if positive is not None:
        hit = f("mul", hit, f("add", f("mul", f("sub", positive, 1.0), o.y), 1.0))
    return _weighted(o, f("sub", f("mul", f("sub", 1.0, o.y), o.x), hit))


def _hinge_embedding(o: Operands) -> Node:
    f, zero = o.f, o.f.number(0.0)
    apart = o.at_least(f("sub", o.number(2, "margin"), o.x), 0.0)
    return f("add", f("select", f("ne", o.y, 1.0), apart, zero), f("select", f("ne", o.y, -1.0), o.x, zero))


def _ranking(o: Operands) -> Node:
    f = o.f
    behind = f("mul", f("neg", o.tensor(2)), o.gap())
    return o.at_least(f("add", behind, o.number(3, "margin")), 0.0)


def _poisson(o: Operands) -> Node:
    """The rate less target times its logarithm; asked for in full, with Stirling's approximation of log y!."""
    f = o.f
    if o.op.args[2]:
        cost = f("sub", f("exp", o.x), f("mul", o.y, o.x))
    else:
        cost = f("sub", o.x, f("mul", o.y, f("log", f("add", o.x, o.number(4, "eps")))))
    if not o.op.args[3]:
        return cost
    spread = f("mul", f("log", f("mul", o.y, 2 * math.pi)), 0.5)
    stirling = f("add", f("sub", f("mul", o.y, f("log", o.y)), o.y), spread)
    return f("add", cost, f("select", f("le", o.y, 1.0), f.number(0.0), stirling))


LOSSES: dict[str, Lower] = {
    "mse_loss": loss(lambda o: o.f("mul", o.gap(), o.gap())), "l1_loss": loss(lambda o: o.f("abs", o.gap())),
    "smooth_l1_loss": loss(lambda o: _rounded_off(o, o.number(3, "beta"), 1.0)),
    "huber_loss": loss(lambda o: _rounded_off(o, o.number(3, "delta"), o.number(3, "delta"))),
    "kl_div": loss(_divergence), "binary_cross_entropy": loss(_binary, 3),
    "binary_cross_entropy_with_logits": loss(_binary_of_logits, 4),
    "soft_margin_loss": loss(lambda o: o.f("log1p", o.f("exp", o.f("mul", o.f("neg", o.x), o.y)))),
    "hinge_embedding_loss": loss(_hinge_embedding, 3), "margin_ranking_loss": loss(_ranking, 4),
    "poisson_nll_loss": loss(_poisson, 5),
}  # fmt: skip
