"""Cheaper spellings of arithmetic for GPUs, right at the special values.

Of float32, within 3 units of the last place, as a move:

| arithmetic | spelled | why that is right |
|---|---|---|
| x / c | x * (1 / c) | two roundings instead of one; 1 / c is a normal number |
| x / y, y >= 1 | x * reciprocal(y) | the special function unit is right to 1 ulp, and 1 / y cannot overflow |
| 1 / y, y >= 1 | reciprocal(y) | the same |
| x / y, y a row's sum of e^(x - largest x) | x * (1 / y) | two roundings, y >= 1; one division a row |
| e^x - 1 | expm1(x) | one polynomial, no branch: nothing cancels near 0 |
| log(1 + e^x) | log1p_exp(x) | max(x, 0) + log(1 + e^-abs(x)): a short series, and nothing overflows |

Instructions of an H200 for four elements, IEEE and cheaper: swish 172 and 86, selu 144 and 105, softplus 179 and 105,
softsign 184 and 48. Memory hides most of that: 1.6e9 elements take 3.01, 3.02, 3.07 (3.3 where the power limit slows
the clock) and 2.99 ms; all four 2.99 to 3.00 in the cheaper spelling.

Of an operation whose result PyTorch rounds to 16 bits, always. There half the bytes leave half the time for arithmetic:
a softmax in bfloat16 issued 44 instructions an element, where memory leaves time for about 25.

| arithmetic | spelled | why that is right |
|---|---|---|
| the rows above | as above | 3 units of float32's last place are a thousandth of a unit of float16's |
| e^x, 2^x | power(x * log2(e)) | wrong by 8e-6 where x is 88; float16 rounds by 5e-4; subnormal results become 0 |
| x / y, y a row's number | over_row(x, y) | two roundings more; y is scaled, so that 1 / y is a normal number |

Maxima and minima of float32 and of 16 bits are one instruction (max.NaN, min.NaN) in place of three.
"""

from __future__ import annotations

from dataclasses import dataclass

from knowledge.compiler.emit.elements import Emitter, literal
from knowledge.compiler.ir import dtypes
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.passes.row_program import maximum_below

HELPERS = {
    "maximum": """
// The larger one; NaN where either is NaN.
template <class V> inline V maximum(V a, V b) { return ((a > b) | (a != a)) ? a : b; }
template <> inline float maximum(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
""",
    "minimum": """
// The smaller one; NaN where either is NaN.
template <class V> inline V minimum(V a, V b) { return ((a < b) | (a != a)) ? a : b; }
template <> inline float minimum(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
""",
    "reciprocal": """
// 1 / y for y >= 1, to one unit of the last place (beyond 2^126, where it is denormal, to four).
__device__ inline float reciprocal(float y) {
  float result;
  asm("rcp.approx.f32 %0, %1;" : "=f"(result) : "f"(y));
  return result;
}
""",
    "clamped": """
// Between low and high; NaN stays.
__device__ inline float clamped(float x, float low, float high) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(low));
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(result), "f"(high));
  return result;
}
""",
    "power_of_two": """
// 2^n for whole n of -126 to 127; infinite above.
__device__ inline float power_of_two(float n) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(n));
  return result;
}
""",
    "power": """
// 2^x to 2^-22 of itself; subnormal results are 0.
__device__ inline float power(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
""",
    "over_row": """
// x / y, where y is the same for a whole row: the compiler takes its reciprocal out of the loop over the row.
__device__ inline float over_row(float x, float y) {
  float const scale = std::abs(y) < 0x1p-100f ? 0x1p64f : std::abs(y) > 0x1p100f ? 0x1p-64f : 1.0f;
  return x * scale * (1.0f / (y * scale));
}
""",
    "expm1": """
// e^x - 1 = 2 (t p + (t - 1/2)) with t = 2^(n-1), n = round(x / ln 2), p = e^(x - n ln 2) - 1 by a polynomial: nothing
// cancels near 0, nothing overflows early. Adding 1.5 * 2^23 leaves no bit for a fraction.
__device__ inline float expm1(float x) {
  x = clamped(x, -30.0f, 89.0f);  // e^89 overflows; beyond it t would, and leave NaN
  float const n = fmaf(x, 1.44269504f, 12582912.0f) - 12582912.0f;
  float const r = fmaf(n, 2.12194440e-4f, fmaf(n, -0.693359375f, x));
  float q = fmaf(r, 0.000198910798644647f, 0.0013933731243014336f);
  q = fmaf(q, r, 0.00833331048488617f);
  q = fmaf(q, r, 0.041666463017463684f);
  q = fmaf(q, r, 0.1666666716337204f);
  q = fmaf(q, r, 0.5f);
  float const p = fmaf(r * r, q, r), t = power_of_two(n - 1.0f);
  float const half = fmaf(t, p, t - 0.5f);
  return half + half;
}
""",
    "log1p_exp": """
// log(1 + e^x) = max(x, 0) + log(1 + u) with u = e^-|x|, and log(1 + u) = 2 atanh(z), z = u / (2 + u) <= 1/3.
__device__ inline float log1p_exp(float x) {
  float const u = std::exp(-std::abs(x)), z = u * reciprocal(2.0f + u), w = z * z;
  float q = fmaf(w, 0.26851499f, 0.28236619f);
  q = fmaf(q, w, 0.40007561f);
  q = fmaf(q, w, 0.66666639f);
  return maximum(x, 0.0f) + fmaf(z * w, q, z + z);
}
""",
}
CHEAPER = "no IEEE division, no branch: half the instructions, within 3 units of the last place"
# Divisors whose reciprocal is a normal number, with room for what is multiplied.
LARGEST_DIVISOR = 2.0**100


LOG2_E = 1.4426950408889634


@dataclass
class DeviceEmitter(Emitter):
    """Spells what is rounded to 16 bits in the cheaper way, and with `cheaper` float32, too."""

    cheaper: bool = False

    def spell(self, node: Node) -> str:
        """The right-hand side of a node's statement."""
        narrow = node.kind == "compute" and node.dtype in dtypes.HALVES
        if narrow and node.op in ("exp", "exp2"):
            x = self.name(node.args[0])
            return f"math::power({x})" if node.op == "exp2" else f"math::power({x} * {literal(LOG2_E, 'float32')})"
        if narrow and node.op == "cast" and node.args[0].dtype in ("int8", "uint8", "bool"):
            return f"static_cast<float>({self.name(node.args[0])})"  # 8 bits are exact in either type
        if not (narrow or self.cheaper) or not _cheaper(node):
            return super().spell(node)
        if node.op == "div":
            return self._product(*node.args)
        if node.op == "expm1":
            return f"math::expm1({self.name(node.args[0])})"
        return f"math::log1p_exp({self.name(node.args[0].args[0])})"

    def _product(self, above: Node, below: Node) -> str:
        if below.kind == "const":
            inverse = literal(1 / float(below.payload[0]), below.dtype)
        elif below.kind == "gathered" and not _at_least_one(below):
            return f"math::over_row({self.name(above)}, {self.name(below)})"
        elif below.kind == "gathered":
            # The compiler takes a division out of a loop, and an instruction of its own it does not.
            inverse = f"({literal(1.0, below.dtype)} / {self.name(below)})"
        else:
            inverse = f"math::reciprocal({self.name(below)})"
        one = above.kind == "const" and above.payload[0] == 1
        return inverse if one else f"{self.name(above)} * {inverse}"


def has_cheaper(node: Node) -> bool:
    """Whether a float32 node's statement has a cheaper spelling."""
    return node.dtype == "float32" and _cheaper(node)


def _cheaper(node: Node) -> bool:
    if dtypes.computed_in(node.dtype) != "float32" or node.kind != "compute":
        return False
    if node.op == "div":
        below = node.args[1]
        if below.kind == "const":
            return _near(below)
        return _at_least_one(below) or (below.kind == "gathered" and node.dtype in dtypes.HALVES)
    return node.op == "expm1" or (node.op == "log1p" and node.args[0].op == "exp")


def _near(node: Node) -> bool:
    """Whether a constant has a reciprocal that loses nothing."""
    return 1 / LARGEST_DIVISOR <= abs(float(node.payload[0])) <= LARGEST_DIVISOR


def _at_least_one(node: Node) -> bool:
    """Whether a value is 1 or more wherever it is a number."""
    if node.kind == "const":
        return float(node.payload[0]) >= 1
    if node.kind == "gathered":
        # A sum of e^(x - largest x): one of its terms is 1, and none is negative.
        return maximum_below(node.args[0]) is not None
    grows = node.op == "maximum" or (node.op == "add" and all(map(_never_negative, node.args)))
    return grows and any(map(_at_least_one, node.args))


def _never_negative(node: Node) -> bool:
    """Whether a value is 0 or more wherever it is a number."""
    if node.kind == "const":
        return float(node.payload[0]) >= 0
    if node.op == "mul" and node.args[0] is node.args[1]:
        return True
    grows = node.op == "add" and all(map(_never_negative, node.args))
    return grows or node.op in ("exp", "exp2", "abs", "sqrt")
