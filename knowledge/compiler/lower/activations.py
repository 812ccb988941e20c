"""The activations of torch.nn, each as the few primitives that keep its accuracy in the tails."""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import signature

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


def formula(made: Callable[..., Node]) -> Lower:
    """The operation that a formula makes of its terms and operand, then of its parameters by their names."""
    names = tuple(signature(made).parameters)[2:]

    def lower(state: Lowering, op: Op) -> Node:
        f, x = _start(state, op)
        return made(f, x, *(_parameter(state, op, place, name) for place, name in enumerate(names, 1)))

    return lower


def logistic(f: Terms, x: Node) -> Node:
    """1 / (1 + exp(-x))."""
    return f("div", 1.0, f("add", 1.0, f("exp", f("neg", x))))


def _hardtanh(state: Lowering, op: Op) -> Node:
    _, x = _start(state, op)
    return clamp(state, x, state.argument(op, 1, "min_val"), state.argument(op, 2, "max_val"))


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


def _elu(f: Terms, x: Node, alpha: float, scale: float, input_scale: float) -> Node:
    low = f("mul", f("expm1", x if input_scale == 1 else f("mul", x, input_scale)), alpha * scale)
    return f("select", f("gt", x, 0.0), x if scale == 1 else f("mul", x, scale), low)


def _selu(f: Terms, x: Node) -> Node:
    low = f("mul", f("expm1", x), SELU_ALPHA * SELU_SCALE)
    return f("select", f("gt", x, 0.0), f("mul", x, SELU_SCALE), low)


def _gelu(state: Lowering, op: Op) -> Node:
    f, x = _start(state, op)
    half = f("mul", x, 0.5)
    if state.argument(op, 1, "approximate") == "tanh":
        cubic = f("mul", f("mul", f("mul", x, x), x), 0.044715)
        inner = f("mul", f("add", x, cubic), math.sqrt(2 / math.pi))
        return f("mul", half, f("add", 1.0, f("tanh", inner)))
    return f("mul", half, f("add", 1.0, f("erf", f("mul", x, math.sqrt(0.5)))))


def _mish(f: Terms, x: Node) -> Node:
    """With e = exp(x), tanh(log(1 + e)) is n / (n + 2) for n = e (e + 2): one exponential, nothing cancels.

    From 20 on the quotient is 1 in float32 and float64 alike, so capping x there keeps n finite.
    """
    power = f("exp", f("minimum", x, 20.0))
    n = f("mul", power, f("add", power, 2.0))
    return f("mul", x, f("div", n, f("add", n, 2.0)))


def _softplus(f: Terms, x: Node, beta: float, threshold: float) -> Node:
    scaled = x if beta == 1 else f("mul", x, beta)
    soft = f("log1p", f("exp", scaled))
    return f("select", f("gt", scaled, threshold), x, soft if beta == 1 else f("div", soft, beta))


def _to_six(f: Terms, x: Node) -> Node:
    return f("minimum", f("maximum", f("add", x, 3.0), 0.0), 6.0)


def _softshrink(f: Terms, x: Node, lambd: float) -> Node:
    low = f("select", f("lt", x, -lambd), f("add", x, lambd), f("mul", x, 0.0))
    return f("select", f("gt", x, lambd), f("sub", x, lambd), low)


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


_FORMULAS: dict[str, Callable[..., Node]] = {
    "relu": lambda f, x: f("maximum", x, 0),
    "relu6": lambda f, x: f("minimum", f("maximum", x, 0), 6),
    "leaky_relu": lambda f, x, negative_slope: f("select", f("gt", x, 0.0), x, f("mul", x, negative_slope)),
    "elu": _elu,
    "selu": _selu,
    "celu": lambda f, x, alpha: f("select", f("gt", x, 0.0), x, f("mul", f("expm1", f("div", x, alpha)), alpha)),
    "silu": lambda f, x: f("div", x, f("add", 1.0, f("exp", f("neg", x)))),
    "sigmoid": logistic,
    "mish": _mish,
    "softplus": _softplus,
    "log_sigmoid": lambda f, x: f("sub", f("minimum", x, 0.0), f("log1p", f("exp", f("neg", f("abs", x))))),
    "hardsigmoid": lambda f, x: f("div", _to_six(f, x), 6.0),
    "hardswish": lambda f, x: f("div", f("mul", x, _to_six(f, x)), 6.0),
    "threshold": lambda f, x, threshold, value: f("select", f("le", x, threshold), f.number(value), x),
    "hardshrink": lambda f, x, lambd: f("select", f("and", f("ge", x, -lambd), f("le", x, lambd)), f.number(0.0), x),
    "softshrink": _softshrink,
}
ACTIVATIONS: dict[str, Lower] = {name: formula(made) for name, made in _FORMULAS.items()} | {
    "hardtanh": _hardtanh, "prelu": _prelu, "gelu": _gelu, "logit": _logit, "xlogy": _xlogy, "logaddexp": _logaddexp,
    "log_sigmoid_forward": formula(_FORMULAS["log_sigmoid"]), "nan_to_num": _nan_to_num, "batch_norm": _batch_norm,
    "_native_batch_norm_legit_no_training": _batch_norm,
}  # fmt: skip
