"""Functions of numbers that C++ has none for: each emitted only into kernels that call it, on either target."""

from __future__ import annotations

SPECIAL: dict[str, str] = {
    "gcd": """
// The greatest common divisor, never negative; 0 where both are.
template <class T> inline T gcd(T a, T b) {
  while (b != 0) { T const rest = T(a % b); a = b; b = rest; }
  return a < 0 ? T(-a) : a;
}
""",
    "shift_left": """
// a * 2^b, wrapping as integers do; 0 beyond the type's bits.
template <class T> inline T shift_left(T a, T b) {
  return b < 0 || b >= T(8 * sizeof(T)) ? T(0) : T(uint64_t(a) << int(b));
}
""",
    "shift_right": """
// a / 2^b rounded down; beyond the type's bits what all further shifts leave.
template <class T> inline T shift_right(T a, T b) {
  int const most = 8 * int(sizeof(T)) - (T(-1) < T(0) ? 1 : 0);
  return b < 0 || b >= T(most) ? (most < 8 * int(sizeof(T)) ? T(a >> most) : T(0)) : T(a >> int(b));
}
""",
    "digamma": """
// The derivative of lgamma, by its recurrence up to 10 and an asymptotic series from there; below 0 by reflection.
template <class T> inline T digamma(T given) {
  double x = double(given), result = 0;
  if (x == 0) { return T(std::copysign(INFINITY, -x)); }
  if (x < 0) {
    if (x == std::trunc(x)) { return T(NAN); }
    double const pi = 3.14159265358979323846;
    result = -pi / std::tan(pi * (x - std::trunc(x)));
    x = 1 - x;
  }
  for (; x < 10; x += 1) { result -= 1 / x; }
  double const z = 1 / (x * x);
  double y = 8.33333333333333333333e-2;
  y = y * z - 2.10927960927960927961e-2;
  y = y * z + 7.57575757575757575758e-3;
  y = y * z - 4.16666666666666666667e-3;
  y = y * z + 3.96825396825396825397e-3;
  y = y * z - 8.33333333333333333333e-3;
  y = y * z + 8.33333333333333333333e-2;
  return T(result + std::log(x) - 0.5 / x - y * z);
}
""",
    "zeta": """
// Hurwitz's zeta, the sum of (q + k)^-x over all k: nine terms, and Euler and Maclaurin's series for the rest.
template <class T> inline T zeta(T order, T from) {
  double const x = double(order), q = double(from);
  if (x == 1) { return T(INFINITY); }
  if (x < 1 || (q <= 0 && q != std::floor(q) && x != std::floor(x))) { return T(NAN); }
  if (q <= 0 && q == std::floor(q)) { return T(INFINITY); }
  double total = 0, at = q;
  for (int k = 0; k < 9 || at <= 9; ++k, at += 1) { total += std::pow(at, -x); }
  double const last = std::pow(at, -x);
  total += last * at / (x - 1) + 0.5 * last;
  double term = x * last / at;
  double const over[] = {12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10};
  for (int k = 0; k < 7; ++k) {
    total += term / over[k];
    term *= (x + 2 * k + 1) * (x + 2 * k + 2) / (at * at);
  }
  return T(total);
}
""",
    "erfinv": """
// The inverse of erf: a rational approximation, and two of Newton's steps.
template <class T> inline T erfinv(T given) {
  double const y = double(given), size = std::abs(y);
  if (size > 1) { return T(NAN); }
  if (size == 1) { return T(std::copysign(INFINITY, y)); }
  double x;
  if (size <= 0.7) {
    double const z = y * y;
    x = y * (((-0.140543331 * z + 0.914624893) * z - 1.645349621) * z + 0.886226899);
    x /= (((0.012229801 * z - 0.329097515) * z + 1.442710462) * z - 2.118377725) * z + 1;
  } else {
    double const z = std::sqrt(-std::log((1 - size) / 2));
    x = ((1.641345311 * z + 3.429567803) * z - 1.624906493) * z - 1.970840454;
    x = std::copysign(x / ((1.637067800 * z + 3.543889200) * z + 1), y);
  }
  double const scale = 1.12837916709551257390;  // 2 / sqrt(pi)
  for (int k = 0; k < 2; ++k) { x -= (std::erf(x) - y) / (scale * std::exp(-x * x)); }
  return T(x);
}
""",
}
