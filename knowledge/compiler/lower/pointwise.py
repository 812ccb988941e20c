"""Elementwise aten operations as primitives: arithmetic, comparisons, transcendental functions, selection, casts."""

from __future__ import annotations

import math
from collections.abc import Callable

from knowledge.compiler.ir import dtypes
from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.primitives import COMPARISONS
from knowledge.compiler.lower.lowering import Lower, Lowering, dtype_argument
from knowledge.compiler.problem import Argument, Op

UNARY = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "digamma", "erfinv",
)  # fmt: skip
ROUNDING = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "fix": "trunc", "round": "round"}
ALIASES = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "special_erf": "erf", "special_erfc": "erfc", "special_exp2": "exp2", "special_expm1": "expm1",
    "special_log1p": "log1p", "negative": "neg", "absolute": "abs", "subtract": "sub", "multiply": "mul",
    "divide": "div", "true_divide": "div", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
    "not_equal": "ne", "clip": "clamp", "arctan2": "atan2", "_to_copy": "to", "type_as": "to",
    "sgn": "sign", "special_expit": "sigmoid", "__and__": "bitwise_and", "__or__": "bitwise_or",
    "__xor__": "bitwise_xor", "__lshift__": "bitwise_left_shift", "__rshift__": "bitwise_right_shift",
    "special_gammaln": "lgamma", "special_digamma": "digamma", "special_psi": "digamma", "special_erfinv": "erfinv",
    "special_polygamma": "polygamma",
}  # fmt: skip


def result_dtype(op: Op) -> str:
    """The element type of the operation's first result."""
    return op.results[0].dtype


def unary(primitive: str) -> Lower:
    """One operand, computed in the type of the result."""
    return lambda state, op: state.graph.compute(
        primitive, result_dtype(op), state.operand(op.args[0], result_dtype(op))
    )


def binary(primitive: str) -> Lower:
    """Two operands, computed in the type of the result."""

    def lower(state: Lowering, op: Op) -> Node:
        dtype = result_dtype(op)
        return state.graph.compute(primitive, dtype, state.operand(op.args[0], dtype), state.operand(op.args[1], dtype))

    return lower


def comparison(primitive: str) -> Lower:
    """Two operands, compared in their common type."""

    def lower(state: Lowering, op: Op) -> Node:
        dtype = state.promoted(*op.args[:2])
        left, right = (state.operand(arg, dtype) for arg in op.args[:2])
        return state.graph.compute(primitive, "bool", left, right)

    return lower


def _rounding(primitive: str) -> Lower:
    def lower(state: Lowering, op: Op) -> Node:
        operand = state.operand(op.args[0], result_dtype(op))
        if not dtypes.is_float(operand.dtype):
            return operand
        if isinstance(places := op.kwargs.get("decimals", 0), int) and places:
            scale, graph = state.graph.const(10.0 ** abs(places), operand.dtype), state.graph
            there, back = ("mul", "div") if places > 0 else ("div", "mul")
            whole = graph.compute(primitive, operand.dtype, graph.compute(there, operand.dtype, operand, scale))
            return graph.compute(back, operand.dtype, whole, scale)
        return state.graph.compute(primitive, operand.dtype, operand)

    return lower


def _scaled(state: Lowering, op: Op, left: Argument, right: Argument, primitive: str) -> Node:
    """left +- alpha * right; on bool, + is `or`."""
    dtype, alpha = result_dtype(op), state.argument(op, 2, "alpha")
    other = state.operand(right, dtype)
    if alpha != 1:
        other = multiply(state, other, state.operand(alpha, dtype))
    if dtype == "bool":
        primitive = "or"
    return state.graph.compute(primitive, dtype, state.operand(left, dtype), other)


def multiply(state: Lowering, left: Node, right: Node) -> Node:
    """A product; on bool it is `and`."""
    return state.graph.compute("and" if left.dtype == "bool" else "mul", left.dtype, left, right)


def _mul(state: Lowering, op: Op) -> Node:
    dtype = result_dtype(op)
    return multiply(state, state.operand(op.args[0], dtype), state.operand(op.args[1], dtype))


def _div(state: Lowering, op: Op) -> Node:
    mode = op.kwargs.get("rounding_mode")
    dtype = result_dtype(op)
    if mode == "floor":
        return binary("floor_divide")(state, op)  # type: ignore[return-value]
    left, right = state.operand(op.args[0], dtype), state.operand(op.args[1], dtype)
    if mode == "trunc" and not dtypes.is_float(dtype):
        return state.graph.compute("truncated_divide", dtype, left, right)
    quotient = state.graph.compute("div", dtype, left, right)
    return state.graph.compute("trunc", dtype, quotient) if mode == "trunc" else quotient


def _fmod(state: Lowering, op: Op) -> Node:
    return binary("fmod" if dtypes.is_float(result_dtype(op)) else "int_fmod")(state, op)  # type: ignore[return-value]


def _abs(state: Lowering, op: Op) -> Node:
    operand = state.operand(op.args[0], result_dtype(op))
    return operand if operand.dtype in ("bool", "uint8") else state.graph.compute("abs", operand.dtype, operand)


def _frac(state: Lowering, op: Op) -> Node:
    operand = state.operand(op.args[0], result_dtype(op))
    return state.graph.compute("sub", operand.dtype, operand, state.graph.compute("trunc", operand.dtype, operand))


def _sign(state: Lowering, op: Op) -> Node:
    operand = state.operand(op.args[0], result_dtype(op))
    return operand if operand.dtype == "bool" else state.graph.compute("sign", operand.dtype, operand)


def _reciprocal(state: Lowering, op: Op) -> Node:
    dtype = result_dtype(op)
    return state.graph.compute("div", dtype, state.graph.const(1.0, dtype), state.operand(op.args[0], dtype))


def _rsqrt(state: Lowering, op: Op) -> Node:
    return reciprocal_root(state, state.operand(op.args[0], result_dtype(op)))


def reciprocal_root(state: Lowering, node: Node) -> Node:
    """1 / sqrt(x), both steps correctly rounded."""
    root = state.graph.compute("sqrt", node.dtype, node)
    return state.graph.compute("div", node.dtype, state.graph.const(1.0, node.dtype), root)


def _square(state: Lowering, op: Op) -> Node:
    operand = state.operand(op.args[0], result_dtype(op))
    return multiply(state, operand, operand)


def _pow(state: Lowering, op: Op) -> Node:
    dtype, exponent = result_dtype(op), op.args[1]
    base = state.operand(op.args[0], dtype)
    if isinstance(exponent, int | float) and not isinstance(op.args[0], int | float):
        known = _known_power(state, base, exponent)
        if known is not None:
            return known
    primitive = "pow" if dtypes.is_float(dtype) else "int_pow"
    return state.graph.compute(primitive, dtype, base, state.operand(exponent, dtype))


def _known_power(state: Lowering, base: Node, exponent: float) -> Node | None:
    """Powers that torch itself takes by multiplication, division or a root."""
    graph, dtype = state.graph, base.dtype
    if exponent == 1:
        return base
    if exponent in (2, 3):
        square = multiply(state, base, base)
        return square if exponent == 2 else multiply(state, square, base)
    if not dtypes.is_float(dtype):
        return None
    one = graph.const(1.0, dtype)
    if exponent == 0.5:
        return graph.compute("sqrt", dtype, base)
    if exponent == -0.5:
        return reciprocal_root(state, base)
    if exponent in (-1, -2):
        return graph.compute("div", dtype, one, base if exponent == -1 else multiply(state, base, base))
    return None


def clamp(state: Lowering, node: Node, low: Argument, high: Argument) -> Node:
    """NaN stays NaN; where the bounds cross, the upper one wins."""
    if low is not None:
        node = state.graph.compute("maximum", node.dtype, node, state.operand(low, node.dtype))
    if high is not None:
        node = state.graph.compute("minimum", node.dtype, node, state.operand(high, node.dtype))
    return node


def _clamp(state: Lowering, op: Op) -> Node:
    low, high = state.argument(op, 1, "min"), state.argument(op, 2, "max")
    return clamp(state, state.operand(op.args[0], result_dtype(op)), low, high)


def _clamp_min(state: Lowering, op: Op) -> Node:
    return clamp(state, state.operand(op.args[0], result_dtype(op)), state.argument(op, 1, "min"), None)


def _clamp_max(state: Lowering, op: Op) -> Node:
    return clamp(state, state.operand(op.args[0], result_dtype(op)), None, state.argument(op, 1, "max"))


def _logical(primitive: str) -> Lower:
    def lower(state: Lowering, op: Op) -> Node:
        return state.graph.compute(primitive, "bool", *(state.operand(arg, "bool") for arg in op.args))

    return lower


def _bitwise(primitive: str) -> Lower:
    def lower(state: Lowering, op: Op) -> Node:
        dtype = result_dtype(op)
        name = "invert" if primitive == "not" and dtype != "bool" else primitive
        return state.graph.compute(name, dtype, *(state.operand(arg, dtype) for arg in op.args))

    return lower


def select(state: Lowering, condition: Node, chosen: Node, other: Node) -> Node:
    """condition ? chosen : other; both of one type."""
    return state.graph.compute("select", chosen.dtype, condition, chosen, other)


def _where(state: Lowering, op: Op) -> Node:
    if len(op.args) != 3:
        raise UnwritableError(f"{op.target} with one operand")
    condition, dtype = state.operand(op.args[0], "bool"), result_dtype(op)
    return select(state, condition, state.operand(op.args[1], dtype), state.operand(op.args[2], dtype))


def _masked_fill(state: Lowering, op: Op) -> Node:
    dtype = result_dtype(op)
    mask = state.operand(op.args[1], "bool")
    return select(state, mask, state.operand(op.args[2], dtype), state.operand(op.args[0], dtype))


def _lerp(state: Lowering, op: Op) -> Node:
    """From the nearer end, as torch does, so that weight 1 gives `end` exactly."""
    graph, dtype = state.graph, result_dtype(op)
    start, end, weight = (state.operand(arg, dtype) for arg in op.args[:3])
    span = graph.compute("sub", dtype, end, start)
    near = graph.compute("add", dtype, start, multiply(state, weight, span))
    rest = graph.compute("sub", dtype, graph.const(1.0, dtype), weight)
    far = graph.compute("sub", dtype, end, multiply(state, span, rest))
    small = graph.compute("lt", "bool", graph.compute("abs", dtype, weight), graph.const(0.5, dtype))
    return select(state, small, near, far)


def _addc(primitive: str) -> Lower:
    def lower(state: Lowering, op: Op) -> Node:
        dtype, graph = result_dtype(op), state.graph
        base, left, right = (state.operand(arg, dtype) for arg in op.args[:3])
        value = state.argument(op, 3, "value")
        left = left if value == 1 else multiply(state, state.operand(value, dtype), left)
        return graph.compute("add", dtype, base, graph.compute(primitive, dtype, left, right))

    return lower


def _isnan(state: Lowering, op: Op) -> Node:
    node = state.value(op.args[0])
    return state.graph.compute("ne", "bool", node, node)


def _against_infinity(primitive: str) -> Lower:
    def lower(state: Lowering, op: Op) -> Node:
        node = state.operand(op.args[0], "float32" if state.value(op.args[0]).dtype != "float64" else "float64")
        size = state.graph.compute("abs", node.dtype, node)
        return state.graph.compute(primitive, "bool", size, state.graph.const(math.inf, node.dtype))

    return lower


def _signbit(state: Lowering, op: Op) -> Node:
    graph, node = state.graph, state.value(op.args[0])
    if node.dtype in ("bool", "uint8"):
        return graph.const(False, "bool")
    if dtypes.is_float(node.dtype):  # -0 and NaN have one, too
        node = graph.compute("copysign", node.dtype, graph.const(1.0, node.dtype), node)
    return graph.compute("lt", "bool", node, graph.const(0, node.dtype))


def _lcm(state: Lowering, op: Op) -> Node:
    """|x / gcd(x, y) * y|; 0 where both are."""
    graph, dtype = state.graph, result_dtype(op)
    x, y = (state.operand(each, dtype) for each in op.args[:2])
    common = graph.compute("gcd", dtype, x, y)
    least = graph.compute("maximum", dtype, common, graph.const(1, dtype))
    return graph.compute("abs", dtype, multiply(state, graph.compute("truncated_divide", dtype, x, least), y))


def _polygamma(state: Lowering, op: Op) -> Node:
    """The n-th derivative of digamma: -(-1)^n n! zeta(n + 1, x)."""
    graph, dtype, (order, given) = state.graph, result_dtype(op), op.args[:2]
    order, given = (order, given) if isinstance(order, int) else (given, order)  # the method has them the other way
    x = state.operand(given, dtype)
    if not isinstance(order, int):
        raise UnwritableError(f"{op.target} of an order that is not known beforehand")
    if not order:
        return graph.compute("digamma", dtype, x)
    series = graph.compute("zeta", dtype, graph.const(float(order + 1), dtype), x)
    return multiply(state, graph.const(float((-1) ** (order + 1) * math.factorial(order)), dtype), series)


def _cast(state: Lowering, op: Op) -> Node:
    return state.operand(op.args[0], result_dtype(op))


def _same(state: Lowering, op: Op) -> Node:
    return state.value(op.args[0])


def _dropout(state: Lowering, op: Op) -> Node:
    if state.argument(op, 2, "train") and state.argument(op, 1, "p"):
        raise UnwritableError(f"{op.target} in training mode, which is random")
    return state.value(op.args[0])


def _filled(value: float | None) -> Lower:
    """zeros_like, ones_like, full_like, zeros, ones, full, scalar_tensor."""

    def lower(state: Lowering, op: Op) -> Node:
        given = op.args[-1] if value is None else value
        return state.operand(given, dtype_argument(op.kwargs.get("dtype"), result_dtype(op)))

    return lower


def _fill_in(table: dict[str, Lower], names: dict[str, str], make: Callable[[str], Lower]) -> None:
    table.update({name: make(primitive) for name, primitive in names.items()})


def _table() -> dict[str, Lower]:
    table: dict[str, Lower] = {name: unary(name) for name in (*UNARY, "neg")}
    table.update({name: comparison(name) for name in COMPARISONS})
    names = {"atan2": "atan2", "hypot": "hypot", "maximum": "maximum", "minimum": "minimum", "fmax": "fmax"}
    _fill_in(table, names | {"fmin": "fmin", "floor_divide": "floor_divide", "remainder": "remainder"}, binary)
    shifts = {"bitwise_left_shift": "shift_left", "bitwise_right_shift": "shift_right"}
    _fill_in(table, shifts | {"copysign": "copysign", "nextafter": "nextafter", "gcd": "gcd"}, binary)
    _fill_in(table, ROUNDING, _rounding)
    _fill_in(table, {f"logical_{name}": name for name in ("and", "or", "xor", "not")}, _logical)
    _fill_in(table, {f"bitwise_{name}": name for name in ("and", "or", "xor", "not")}, _bitwise)
    _fill_in(table, {"addcmul": "mul", "addcdiv": "div"}, _addc)
    _fill_in(table, {"isinf": "eq", "isfinite": "lt"}, _against_infinity)
    _fill_in(
        table,
        dict.fromkeys(("zeros_like", "zeros", "new_zeros", "empty_like", "empty", "new_empty"), "0"),
        lambda _: _filled(0),
    )
    _fill_in(table, dict.fromkeys(("ones_like", "ones", "new_ones"), "1"), lambda _: _filled(1))
    table |= {
        "add": lambda state, op: _scaled(state, op, op.args[0], op.args[1], "add"),
        "sub": lambda state, op: _scaled(state, op, op.args[0], op.args[1], "sub"),
        "rsub": _rsub, "mul": _mul, "div": _div, "fmod": _fmod, "abs": _abs, "sign": _sign, "square": _square,
        "reciprocal": _reciprocal, "rsqrt": _rsqrt, "pow": _pow, "clamp": _clamp, "clamp_min": _clamp_min,
        "clamp_max": _clamp_max, "where": _where, "masked_fill": _masked_fill, "lerp": _lerp,
        "frac": _frac, "isnan": _isnan, "signbit": _signbit, "lcm": _lcm, "polygamma": _polygamma,
        "to": _cast, "dropout": _dropout, "native_dropout": _dropout,
        "full_like": _filled(None), "fill": _filled(None), "full": _filled(None), "scalar_tensor": _filled(None),
        "clone": _same, "detach": _same, "alias": _same, "contiguous": _same, "lift_fresh_copy": _same,
        "positive": _same, "copy": lambda state, op: state.operand(op.args[1], result_dtype(op)),
    }  # fmt: skip
    table.update({alias: table[name] for alias, name in ALIASES.items() if name in table})
    return table


def _rsub(state: Lowering, op: Op) -> Node:
    """other - alpha * self."""
    return _scaled(state, op, op.args[1], op.args[0], "sub")


POINTWISE = _table()
