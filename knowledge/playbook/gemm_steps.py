"""What follows a product on one element `x` of its result, in C++: activations, and two values of the same product."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile

from knowledge.playbook.gemm_terms import Result, Step
from knowledge.playbook.gemm_views import UncoveredError
from knowledge.playbook.ops_activations import SELU_ALPHA, SELU_SCALE
from knowledge.playbook.problem import Argument, Op

Spell = Callable[[Argument], str]
"""A scalar argument in C++. Raises UncoveredError for anything else."""

# A combination longer than this would be computed over and over.
LONGEST = 2000

PLAIN = {
    "relu": "x < T(0) ? T(0) : x",
    "relu6": "x < T(0) ? T(0) : x > T(6) ? T(6) : x",
    "neg": "-x",
    "sigmoid": "T(1) / (T(1) + std::exp(-x))",
    "tanh": "std::tanh(x)",
    "silu": "x / (T(1) + std::exp(-x))",
    "square": "x * x",
    "abs": "std::abs(x)",
    "exp": "std::exp(x)",
    "sqrt": "std::sqrt(x)",
    "mish": "x * std::tanh(std::log1p(std::exp(x)))",
    "log_sigmoid": "(x < T(0) ? x : T(0)) - std::log1p(std::exp(-std::abs(x)))",
    "hardsigmoid": "(x < T(-3) ? T(0) : x > T(3) ? T(6) : x + T(3)) / T(6)",
    "hardswish": "x * (x < T(-3) ? T(0) : x > T(3) ? T(6) : x + T(3)) / T(6)",
    "selu": f"x > T(0) ? T({SELU_SCALE!r}) * x : T({SELU_SCALE * SELU_ALPHA!r}) * std::expm1(x)",
}
GELU = {
    "none": "T(0.5) * x * (T(1) + std::erf(x * T(0.70710678118654752440)))",
    "tanh": "T(0.5) * x * (T(1) + std::tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x)))",
}


def _between(low: str | None, high: str | None) -> str:
    """NaN stays NaN; where the bounds cross, the upper one wins."""
    inner = "x" if low is None else f"(x < {low} ? {low} : x)"
    return inner if high is None else f"{inner} > {high} ? {high} : {inner}"


def _clamped(op: Op, spell: Spell) -> str:
    """clamp, clamp_min, clamp_max, hardtanh."""
    bare = op.target.split(".")[1].rstrip("_")
    if bare == "clamp_max":
        return _between(None, spell(_given(op, 1, "max")))
    if bare == "hardtanh":
        return _between(spell(_given(op, 1, "min_val", -1.0)), spell(_given(op, 2, "max_val", 1.0)))
    low, high = (_given(op, place, name) for place, name in enumerate(("min", "max"), 1))
    return _between(*(None if value is None else spell(value) for value in (low, high)))


def _leaky(op: Op, spell: Spell) -> str:
    return f"x > T(0) ? x : {spell(_given(op, 1, 'negative_slope', 0.01))} * x"


def _elu(op: Op, spell: Spell) -> str:
    alpha, scale, inner = (spell(_given(op, k, name, 1)) for k, name in enumerate(("alpha", "scale", "input_scale"), 1))
    return f"x > T(0) ? {scale} * x : {scale} * {alpha} * std::expm1({inner} * x)"


def _softplus(op: Op, spell: Spell) -> str:
    beta, threshold = spell(_given(op, 1, "beta", 1)), spell(_given(op, 2, "threshold", 20))
    return f"{beta} * x > {threshold} ? x : std::log1p(std::exp({beta} * x)) / {beta}"


def _gelu(op: Op, spell: Spell) -> str:
    return GELU[str(op.kwargs.get("approximate", "none"))]


WITH_NUMBERS: dict[str, Callable[[Op, Spell], str]] = {
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max", "hardtanh"), _clamped),
    "leaky_relu": _leaky, "elu": _elu, "softplus": _softplus, "gelu": _gelu,
}  # fmt: skip
ACTIVATIONS = frozenset({*PLAIN, *WITH_NUMBERS})


def activation(name: str, op: Op, spell: Spell) -> str:
    """The step of one of `ACTIVATIONS`."""
    return PLAIN[name] if name in PLAIN else WITH_NUMBERS[name](op, spell)


def _given(op: Op, position: int, name: str, default: Argument = None) -> Argument:
    return op.args[position] if position < len(op.args) else op.kwargs.get(name, default)


def together(left: Result, right: Result, sign: str) -> Result:
    """left `sign` right, two values of the very same product: their common steps, then both ways on in one step.

    Raises UncoveredError where they are of different products, or where a way reads another tensor.
    """
    if replace(left, steps=()) != replace(right, steps=()) or left.triangle:
        raise UncoveredError("arithmetic between two different matrix products is not covered.")
    common = [
        mine for mine, _ in takewhile(lambda pair: pair[0] == pair[1], zip(left.steps, right.steps, strict=False))
    ]
    mine, other = (_folded(each.steps[len(common) :]) for each in (left, right))
    code = f"({mine}) {sign} ({other})"
    if len(code) > LONGEST:
        raise UncoveredError("so many activations of one product at once are not covered.")
    return replace(left, steps=(*common, Step(code, left.view)))


def _folded(steps: tuple[Step, ...]) -> str:
    """Several steps as one expression of `x`."""
    expression = "x"
    for step in steps:
        if step.operand:
            raise UncoveredError("arithmetic between two values of a product is covered where no other tensor is read.")
        expression = re.sub(r"\bx\b", f"({expression})", step.code)
    return expression
