"""C++ helper functions, each emitted only into kernels that call it (`cpu_text`)."""

from __future__ import annotations

# Written for numbers and for GCC vector types alike: `|` on comparisons and `?:` mean the same for both.
GENERIC: dict[str, str] = {
    "maximum": """
// The larger one; NaN where either is NaN.
template <class V> inline V maximum(V a, V b) { return ((a > b) | (a != a)) ? a : b; }
""",
    "minimum": """
// The smaller one; NaN where either is NaN.
template <class V> inline V minimum(V a, V b) { return ((a < b) | (a != a)) ? a : b; }
""",
    "number_max": """
// The larger one; a NaN gives way to a number.
template <class V> inline V number_max(V a, V b) { return ((a > b) | (b != b)) ? a : b; }
""",
    "number_min": """
// The smaller one; a NaN gives way to a number.
template <class V> inline V number_min(V a, V b) { return ((a < b) | (b != b)) ? a : b; }
""",
    "sign": """
// -1, 0 or 1; torch gives 0 for NaN.
template <class V> inline V sign(V a) { V const zero{}; return (a > zero) ? zero + 1 : ((a < zero) ? zero - 1 : zero); }
""",
    "modulo": """
// The remainder with the divisor's sign, as Python's %.
template <class T> inline T modulo(T a, T b) {
  T rest;
  if constexpr (std::is_floating_point_v<T>) { rest = std::fmod(a, b); } else { rest = T(a % b); }
  return (rest != 0 && (b < 0) != (rest < 0)) ? T(rest + b) : rest;
}
""",
    "floor_divide": """
// Division rounded towards minus infinity. For floats from the remainder, so that 1 // 0.1 is 9 as in Python.
template <class T> inline T floor_divide(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (b == 0) { return a / b; }
    T const rest = std::fmod(a, b);
    T quotient = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) { quotient -= 1; }
    if (quotient == 0) { return std::copysign(T(0), a / b); }
    T const whole = std::floor(quotient);
    return quotient - whole > T(0.5) ? whole + 1 : whole;
  } else {
    T const quotient = T(a / b);
    return (a % b != 0 && (a < 0) != (b < 0)) ? T(quotient - 1) : quotient;
  }
}
""",
    "int_pow": """
// a to the power b by squaring, wrapping as integers do; a negative b gives 0 except for a = 1 and a = -1.
template <class T> inline T int_pow(T a, T b) {
  if (b < 0) { return a == 1 ? T(1) : a == -1 ? (b % 2 == 0 ? T(1) : T(-1)) : T(0); }
  T result = 1;
  for (; b > 0; b = T(b / 2)) {
    if (b % 2 == 1) { result = T(result * a); }
    a = T(a * a);
  }
  return result;
}
""",
}
