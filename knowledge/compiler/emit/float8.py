"""float8 in C++: elements of a byte that are read as float32, and rounded to as PyTorch casts.

A cast takes the nearest number, of two the one whose last bit is 0. What is too large becomes an infinity (e5m2), and
in e4m3fn, which has none, the largest number or NaN: PyTorch's versions differ there.
"""

from __future__ import annotations

from knowledge.compiler.ir.dtypes import FLOAT8
from knowledge.compiler.problem import Problem

_BEGINS = "using namespace cute;\n"
_TYPES = """
// A float of a byte: without infinities every exponent has numbers, and only the last code is NaN.
template <int kMantissa, int kBias, bool kInfinity>
struct Float8 {{
  uint8_t bits;
  static constexpr uint32_t kShift = 23 - kMantissa, kRebias = uint32_t(127 - kBias) << 23;
  Float8() = default;
  CUTE_HOST_DEVICE explicit Float8(float x) : bits(encoded(x)) {{}}
  CUTE_HOST_DEVICE operator float() const {{
    uint32_t const size = bits & 0x7f;
    uint32_t wide = (size << kShift) + kRebias;
    if (size < (1u << kMantissa)) {{  // below the normal numbers: multiples of the least one
      wide = bits_of(float(size) * float_of(uint32_t(128 - kBias - kMantissa) << 23));
    }}
    if (size >= (kInfinity ? 0x7c : 0x7f)) {{ wide = 0x7f800000u | (size & 3) << 21; }}
    return float_of(wide | uint32_t(bits & 0x80) << 24);
  }}
  CUTE_HOST_DEVICE static uint8_t encoded(float x) {{
    uint32_t const wide = bits_of(x), size = wide & 0x7fffffffu;
    uint32_t const rounded = (size - kRebias + (1u << (kShift - 1)) - 1 + (size >> kShift & 1)) >> kShift;
    constexpr uint32_t kUnit = uint32_t(151 - kBias - kMantissa) << 23;  // its last bit is the least number
    uint32_t const small = bits_of(float_of(size) + float_of(kUnit)) - kUnit;
    constexpr uint32_t kMost = kInfinity ? 0x7c : {most};
    uint32_t code = size < kRebias + (1u << 23) ? small : rounded < kMost ? rounded : kMost;
    if (size > 0x7f800000u) {{ code = 0x7f; }}
    return uint8_t(code | (wide >> 24 & 0x80));
  }}
  CUTE_HOST_DEVICE static uint32_t bits_of(float x) {{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
  }}
  CUTE_HOST_DEVICE static float float_of(uint32_t bits) {{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
  }}
}};
using float8_e4m3fn = Float8<3, 7, false>;
using float8_e5m2 = Float8<2, 15, true>;
"""


def with_float8(problem: Problem, source: str) -> str:
    """A kernel's source with these types, where it has any."""
    if not any(each in source for each in FLOAT8):
        return source
    types = _TYPES.format(most="0x7e" if problem.saturates else "0x7f")
    source = source.replace(_BEGINS, f"{_BEGINS}{types}", 1)
    return source.replace("#include <cstdint>\n", "#include <cstdint>\n#include <cstring>\n", 1)
