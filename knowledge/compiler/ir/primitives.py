"""The elementwise primitives: how each is spelled in C++, for one element and for a SIMD register of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Primitive:
    """`{0}`, `{1}`, `{2}` stand for the operands.

    `element` is the spelling for one element. `lanes` is the one for GCC vector types, "" where only a loop over the
    lanes can call `element`; `exact` names a branch-free function of the playbook's own for float32 lanes. `mixes` says
    that the C++ operators accept a vector beside a number. Helpers are found by their `math::` prefix.
    """

    element: str
    lanes: str = ""
    exact: str = ""
    mixes: bool = False


def _infix(symbol: str) -> Primitive:
    return Primitive(f"{{0}} {symbol} {{1}}", f"{{0}} {symbol} {{1}}", mixes=True)


def _both(text: str) -> Primitive:
    return Primitive(text, text)


def _libm(name: str, exact: bool = False) -> Primitive:
    arity = 2 if name in ("pow", "atan2", "hypot", "fmod", "copysign", "nextafter") else 1
    operands = ", ".join(f"{{{k}}}" for k in range(arity))
    return Primitive(f"std::{name}({operands})", exact=f"math::{name}({operands})" if exact else "")


PRIMITIVES: dict[str, Primitive] = {
    "add": _infix("+"),
    "sub": _infix("-"),
    "mul": _infix("*"),
    "div": _infix("/"),
    "neg": _both("-{0}"),
    "lt": _infix("<"),
    "le": _infix("<="),
    "gt": _infix(">"),
    "ge": _infix(">="),
    "eq": _infix("=="),
    "ne": _infix("!="),
    "and": _infix("&"),
    "or": _infix("|"),
    "xor": _infix("^"),
    "not": Primitive("!{0}", "~{0}"),
    "invert": _both("~{0}"),
    "select": _both("{0} ? {1} : {2}"),
    "maximum": _both("math::maximum({0}, {1})"),
    "minimum": _both("math::minimum({0}, {1})"),
    "fmax": _both("math::number_max({0}, {1})"),
    "fmin": _both("math::number_min({0}, {1})"),
    "floor_divide": Primitive("math::floor_divide({0}, {1})"),
    "remainder": Primitive("math::modulo({0}, {1})"),
    "fmod": _libm("fmod"),
    "int_fmod": _infix("%"),
    "truncated_divide": Primitive("{0} / {1}", "{0} / {1}"),
    "abs": Primitive("std::abs({0})", "math::abs({0})"),
    "sqrt": Primitive("std::sqrt({0})", "math::sqrt({0})"),
    "floor": Primitive("std::floor({0})", "math::floor({0})"),
    "ceil": Primitive("std::ceil({0})", "math::ceil({0})"),
    "trunc": Primitive("std::trunc({0})", "math::trunc({0})"),
    "round": Primitive("std::nearbyint({0})", "math::nearbyint({0})"),
    "exp": _libm("exp", exact=True),
    "exp2": _libm("exp2", exact=True),
    "expm1": _libm("expm1", exact=True),
    "log": _libm("log", exact=True),
    "log2": _libm("log2", exact=True),
    "log10": _libm("log10", exact=True),
    "log1p": _libm("log1p", exact=True),
    "sin": _libm("sin", exact=True),
    "cos": _libm("cos", exact=True),
    "tan": _libm("tan", exact=True),
    "asin": _libm("asin"),
    "acos": _libm("acos"),
    "atan": _libm("atan", exact=True),
    "sinh": _libm("sinh"),
    "cosh": _libm("cosh"),
    "tanh": _libm("tanh", exact=True),
    "asinh": _libm("asinh"),
    "acosh": _libm("acosh"),
    "atanh": _libm("atanh"),
    "erf": _libm("erf", exact=True),
    "erfc": _libm("erfc"),
    "pow": _libm("pow", exact=True),
    "int_pow": Primitive("math::int_pow({0}, {1})"),
    "atan2": _libm("atan2"),
    "hypot": _libm("hypot"),
    "sign": _both("math::sign({0})"),
    "lgamma": _libm("lgamma"),
    "digamma": Primitive("math::digamma({0})"),
    "zeta": Primitive("math::zeta({0}, {1})"),
    "erfinv": Primitive("math::erfinv({0})"),
    "copysign": _libm("copysign"),
    "nextafter": _libm("nextafter"),
    "gcd": Primitive("math::gcd({0}, {1})"),
    "shift_left": Primitive("math::shift_left({0}, {1})"),
    "shift_right": Primitive("math::shift_right({0}, {1})"),
}
COMPARISONS = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))
