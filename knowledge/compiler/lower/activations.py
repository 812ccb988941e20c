"""The activations of torch.nn, each as the few primitives that keep its accuracy in the tails."""

from __future__ import annotations

import math

from knowledge.compiler.ir import dtypes
from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.nodes import Values
from knowledge.compiler.ir.sizes import real
from knowledge.compiler.lower.lowering import Lower, Lowering
from knowledge.compiler.lower.pointwise import clamp, multiply, reciprocal_root, select
from knowledge.compiler.problem import Argument, Op

# The constants of self-normalizing networks (Klambauer et al. 2017, equation 14).
SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


class Terms:
    """Arithmetic on nodes of one element type, spelled as formulas."""

    def __init__(self, graph: Values, dtype: str) -> None:
        self.graph = graph
        self.dtype = dtype

    def number(self, value: float) -> Node:
        """A constant."""
        return self.graph.const(value if not dtypes.is_float(self.dtype) else real(value), self.dtype)

    def __call__(self, op: str, *operands: Node | float) -> Node:
        """One primitive; comparisons give bool, everything else the common type."""
        nodes = [operand if isinstance(operand, Node) else self.number(operand) for operand in operands]
        dtype = "bool" if op in ("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not") else self.dtype
        return self.graph.compute(op, dtype, *nodes)


def _start(state: Lowering, op: Op) -> tuple[Terms, Node]:
    dtype = op.results[0].dtype
    return Terms(state.graph, dtype), state.operand(op.args[0], dtype)


def _number(argument: Argument, op: Op) -> float:
    if isinstance(argument, int | float):
        return argument
    raise UnwritableError(f"{op.target} with a parameter that is not a plain number")


def _parameter(state: Lowering, op: Op, position: int, name: str) -> float:
    return _number(state.argument(op, position, name), op)


def logistic(f: Terms, x: Node) -> Node:
    """1 / (1 + exp(-x))."""
    return f("div", 1.0, f("add", 1.0, f("exp", f("neg", x))))


def _relu(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    return f("maximum", x, 0)


def _relu6(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    return f("minimum", f("maximum", x, 0), 6)


def _hardtanh(state: Lowering, op: Op) -> Node:
    _, x = _start(state, op)
    return clamp(state, x, state.argument(op, 1, "min_val"), state.argument(op, 2, "max_val"))


def _leaky_relu(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    return f("select", f("gt", x, 0.0), x, f("mul", x, _parameter(state, op, 1, "negative_slope")))


def _prelu(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    weight = state.operand(op.args[1], x.dtype)
    if len(x.shape) > 1 and weight.shape != (1,):
        weight = state.graph.reshape(weight, _channel(weight, x))
    elif not x.shape:
        weight = state.graph.reshape(weight, ())
    return f("select", f("gt", x, 0.0), x, f("mul", weight, x))


def _channel(vector: Node, like: Node) -> tuple[int, ...]:
    """The shape that lines a vector up with dimension 1 of `like`."""
    return (*vector.shape, *(1,) * (len(like.shape) - 2))


def _elu(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    alpha, scale, inner = (
        _parameter(state, op, k, name) for k, name in enumerate(("alpha", "scale", "input_scale"), 1)
    )
    low = f("mul", f("expm1", x if inner == 1 else f("mul", x, inner)), alpha * scale)
    return f("select", f("gt", x, 0.0), x if scale == 1 else f("mul", x, scale), low)


def _selu(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    low = f("mul", f("expm1", x), SELU_ALPHA * SELU_SCALE)
    return f("select", f("gt", x, 0.0), f("mul", x, SELU_SCALE), low)


def _celu(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    alpha = _parameter(state, op, 1, "alpha")
    return f("select", f("gt", x, 0.0), x, f("mul", f("expm1", f("div", x, alpha)), alpha))


def _gelu(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    half = f("mul", x, 0.5)
    if state.argument(op, 1, "approximate") == "tanh":
        cubic = f("mul", f("mul", f("mul", x, x), x), 0.044715)
        inner = f("mul", f("add", x, cubic), math.sqrt(2 / math.pi))
        return f("mul", half, f("add", 1.0, f("tanh", inner)))
    return f("mul", half, f("add", 1.0, f("erf", f("mul", x, math.sqrt(0.5)))))


def _silu(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    return f("div", x, f("add", 1.0, f("exp", f("neg", x))))


def _sigmoid(state: Lowering, op: Op) -> Node:
    return logistic(*_start(state, op))


def _mish(state: Lowering, op: Op) -> Node:
    """With e = exp(x), tanh(log(1 + e)) is n / (n + 2) for n = e (e + 2): one exponential, nothing cancels.

    From 20 on the quotient is 1 in float32 and float64 alike, so capping x there keeps n finite.
    """
    f, x = _start(state, op)
    power = f("exp", f("minimum", x, 20.0))
    n = f("mul", power, f("add", power, 2.0))
    return f("mul", x, f("div", n, f("add", n, 2.0)))


def _softplus(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    beta, threshold = _parameter(state, op, 1, "beta"), _parameter(state, op, 2, "threshold")
    scaled = x if beta == 1 else f("mul", x, beta)
    soft = f("log1p", f("exp", scaled))
    return f("select", f("gt", scaled, threshold), x, soft if beta == 1 else f("div", soft, beta))


def _log_sigmoid(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    return f("sub", f("minimum", x, 0.0), f("log1p", f("exp", f("neg", f("abs", x)))))


def _hardsigmoid(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    return f("div", f("minimum", f("maximum", f("add", x, 3.0), 0.0), 6.0), 6.0)


def _hardswish(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    return f("div", f("mul", x, f("minimum", f("maximum", f("add", x, 3.0), 0.0), 6.0)), 6.0)


def _threshold(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    return f("select", f("le", x, _number(op.args[1], op)), f.number(_number(op.args[2], op)), x)


def _hardshrink(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    edge = _parameter(state, op, 1, "lambd")
    inside = f("and", f("ge", x, -edge), f("le", x, edge))
    return f("select", inside, f.number(0.0), x)


def _softshrink(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    edge = _parameter(state, op, 1, "lambd")
    low = f("select", f("lt", x, -edge), f("add", x, edge), f("mul", x, 0.0))
    return f("select", f("gt", x, edge), f("sub", x, edge), low)


def _logit(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    eps = state.argument(op, 1, "eps")
    if eps is not None:
        x = clamp(state, x, eps, 1.0 - _number(eps, op))
    return f("log", f("div", x, f("sub", 1.0, x)))


def _xlogy(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    y = state.operand(op.args[1], x.dtype)
    product = f("select", f("eq", x, 0.0), f.number(0.0), f("mul", x, f("log", y)))
    return f("select", f("ne", y, y), y, product)


def _logaddexp(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    y = state.operand(op.args[1], x.dtype)
    gap = f("neg", f("abs", f("sub", x, y)))
    apart = f("add", f("maximum", x, y), f("log1p", f("exp", gap)))
    same_infinity = f("and", f("eq", x, y), f("eq", f("abs", x), math.inf))
    return select(state, same_infinity, x, apart)


def _nan_to_num(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    if not dtypes.is_float(x.dtype):
        return x
    largest = {"float64": 1.7976931348623157e308, "float16": 65504.0, "bfloat16": 3.3895313892515355e38}.get(
        x.dtype, 3.4028234663852886e38
    )
    given = [state.argument(op, k, name) for k, name in enumerate(("nan", "posinf", "neginf"), 1)]
    nan, high, low = (
        default if value is None else _number(value, op)
        for value, default in zip(given, (0.0, largest, -largest), strict=True)
    )
    bounded = f("select", f("eq", x, -math.inf), f.number(low), x)
    bounded = f("select", f("eq", x, math.inf), f.number(high), bounded)
    return f("select", f("ne", x, x), f.number(nan), bounded)


def _batch_norm(state: Lowering, op: Op) -> Node:
    """Normalization by stored statistics: elementwise, each channel with its own numbers."""
    f, x = _start(state, op)
    if state.argument(op, 5, "training") is True:
        raise UnwritableError(f"{op.target} in training mode")
    weight, bias, mean, variance = (op.args[k] for k in range(1, 5))
    if mean is None or variance is None:
        raise UnwritableError(f"{op.target} without stored statistics")
    eps = _number(state.argument(op, 7 if "no_training" not in op.target else 6, "eps"), op)

    def channel(argument: Argument) -> Node:
        vector = state.operand(argument, x.dtype)
        return state.graph.reshape(vector, _channel(vector, x)) if len(x.shape) > 1 else vector

    scale = reciprocal_root(state, f("add", channel(variance), eps))
    result = f("mul", f("sub", x, channel(mean)), scale)
    result = result if weight is None else multiply(state, result, channel(weight))
    return result if bias is None else f("add", result, channel(bias))


ACTIVATIONS: dict[str, Lower] = {
    "relu": _relu, "relu6": _relu6, "hardtanh": _hardtanh, "leaky_relu": _leaky_relu, "prelu": _prelu, "elu": _elu,
    "selu": _selu, "celu": _celu, "gelu": _gelu, "silu": _silu, "sigmoid": _sigmoid, "mish": _mish,
    "softplus": _softplus, "log_sigmoid": _log_sigmoid, "log_sigmoid_forward": _log_sigmoid,
    "hardsigmoid": _hardsigmoid, "hardswish": _hardswish, "threshold": _threshold, "hardshrink": _hardshrink,
    "softshrink": _softshrink, "logit": _logit, "xlogy": _xlogy, "logaddexp": _logaddexp,
    "nan_to_num": _nan_to_num, "batch_norm": _batch_norm, "_native_batch_norm_legit_no_training": _batch_norm,
}  # fmt: skip
