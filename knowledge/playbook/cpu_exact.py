"""Branch-free float32 functions on SIMD registers, as C++ text: within about 2 ulp, right at the special values.

Coefficients: Chebyshev interpolation with 40 digits of the quotient that each comment names, rounded to float32.
"""

from __future__ import annotations

EXACT: dict[str, str] = {
    "bits": """
inline vint bits(vfloat x) { return vint(x); }
""",
    "from_bits": """
inline vfloat from_bits(vint x) { return vfloat(x); }
""",
    "nearest": """
// The nearest integer, for |x| < 2^22: adding 1.5 * 2^23 leaves no bit for a fraction.
inline vfloat nearest(vfloat x) {
  vfloat const shifted = x + 12582912.0f;
  return shifted - 12582912.0f;
}
""",
    "exp_series": """
// (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2, to 1.4e-9.
inline vfloat exp_series(vfloat r) {
  vfloat q = r * 0.000198910798644647f + 0.0013933731243014336f;
  q = q * r + 0.00833331048488617f;
  q = q * r + 0.041666463017463684f;
  q = q * r + 0.1666666716337204f;
  return q * r + 0.5f;
}
""",
    "scale": """
// a * 2^n for integers |n| <= 252, in two steps so that results below the normal range are rounded once.
template <class V> inline V scale(V a, V n) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) { return V(_mm512_scalef_ps(__m512(a), __m512(n))); }
#endif
  vint const whole = __builtin_convertvector(n, vint);
  vint const half = whole >> 1;
  return a * from_bits((half + 127) << 23) * from_bits((whole - half + 127) << 23);
}
""",
    "exp": """
// e^x = 2^n e^r with n = round(x / ln 2); ln 2 in two parts, the first short enough that n times it is exact.
inline vfloat exp(vfloat x) {
  x = x > 90.0f ? all(90.0f) : x;
  x = x < -106.0f ? all(-106.0f) : x;
  vfloat const n = nearest(x * 1.44269504088896341f);
  vfloat const r = (x - n * 0.693359375f) - n * -2.12194440054690583e-4f;
  return scale(1.0f + (r + r * r * exp_series(r)), n);
}
""",
    "exp2": """
inline vfloat exp2(vfloat x) {
  x = x > 130.0f ? all(130.0f) : x;
  x = x < -152.0f ? all(-152.0f) : x;
  vfloat const n = nearest(x);
  vfloat const r = (x - n) * 0.693147180559945309f;
  return scale(1.0f + (r + r * r * exp_series(r)), n);
}
""",
    "expm1": """
// e^x - 1 = 2 (t (e^r - 1) + (t - 1/2)) with t = 2^(n-1): nothing cancels near 0, nothing overflows early.
inline vfloat expm1(vfloat x) {
  vfloat const capped = x > 90.0f ? all(90.0f) : (x < -30.0f ? all(-30.0f) : x);
  vfloat const n = nearest(capped * 1.44269504088896341f);
  vfloat const r = (capped - n * 0.693359375f) - n * -2.12194440054690583e-4f;
  vfloat const t = from_bits((__builtin_convertvector(n, vint) + 126) << 23);
  vfloat const p = r + r * r * exp_series(r);
  vfloat const result = (t * p + (t - 0.5f)) * 2.0f;
  vfloat const near = n == 0.0f ? p : result;
  return (x > 88.8f) ? all(float(INFINITY)) : ((x == 0.0f) | (x != x) ? x : near);
}
""",
    "tanh": """
// With m = e^(2|x|) - 1, tanh |x| = m / (m + 2); from 10 on it rounds to 1.
inline vfloat tanh(vfloat x) {
  vfloat const size = abs(x);
  vfloat const m = expm1((size > 10.0f ? all(10.0f) : size) * 2.0f);
  return from_bits(bits(m / (m + 2.0f)) | (bits(x) & int32_t(0x80000000)));
}
""",
    "log_series": """
// log(1 + f) - f for 1 + f between sqrt(1/2) and sqrt(2): -f^2/2 + f^3 q(f), q to 3.0e-8.
inline vfloat log_series(vfloat f) {
  vfloat q = f * 0.0698002427816391f - 0.11489689350128174f;
  q = q * f + 0.11687100678682327f;
  q = q * f - 0.12424536794424057f;
  q = q * f + 0.14248783886432648f;
  q = q * f - 0.16667838394641876f;
  q = q * f + 0.20000724494457245f;
  q = q * f - 0.2499999701976776f;
  q = q * f + 0.3333333134651184f;
  vfloat const square = f * f;
  return square * f * q - 0.5f * square;
}
""",
    "log_parts": """
// x = 2^e (1 + f), 1 + f between sqrt(1/2) and sqrt(2); numbers below the normal range are scaled up first.
inline void log_parts(vfloat x, vfloat& e, vfloat& f) {
  vmask const tiny = x < 1.17549435e-38f;
  x = tiny ? x * 8388608.0f : x;
  vint const exponent = (bits(x) - 0x3f3504f3) >> 23;
  f = from_bits(bits(x) - (exponent << 23)) - 1.0f;
  e = __builtin_convertvector(exponent, vfloat) - (tiny ? all(23.0f) : all(0.0f));
}
""",
    "log_specials": """
// The logarithm's values where the series does not apply.
inline vfloat log_specials(vfloat x, vfloat result) {
  result = x == float(INFINITY) ? x : result;
  result = x == 0.0f ? all(-float(INFINITY)) : result;
  return ((x < 0.0f) | (x != x)) ? all(float(NAN)) : result;
}
""",
    "log": """
inline vfloat log(vfloat x) {
  vfloat e, f;
  log_parts(x, e, f);
  return log_specials(x, (f + (log_series(f) + e * -2.12194440054690583e-4f)) + e * 0.693359375f);
}
""",
    "log2": """
inline vfloat log2(vfloat x) {
  vfloat e, f;
  log_parts(x, e, f);
  return log_specials(x, e + (f + log_series(f)) * 1.44269504088896341f);
}
""",
    "log10": """
// log10(2) in two parts, the first short enough that e times it is exact.
inline vfloat log10(vfloat x) {
  vfloat e, f;
  log_parts(x, e, f);
  vfloat const fraction = (f + log_series(f)) * 0.434294481903251828f;
  return log_specials(x, (fraction + e * 4.605038981195214e-6f) + e * 0.301025390625f);
}
""",
    "log1p": """
// log(u) for u = 1 + x rounded, with the rounding error of u added back to the fraction.
inline vfloat log1p(vfloat x) {
  vfloat const u = 1.0f + x;
  vfloat const lost = x > 1.0f ? 1.0f - (u - x) : x - (u - 1.0f);
  vfloat e, f;
  log_parts(u, e, f);
  vfloat const shrink = from_bits((127 - __builtin_convertvector(e, vint)) << 23);
  f += (abs(x) < 16777216.0f) ? lost * shrink : all(0.0f);
  vfloat const result = (f + (log_series(f) + e * -2.12194440054690583e-4f)) + e * 0.693359375f;
  return x == 0.0f ? x : log_specials(u, result);
}
""",
    "erf": """
// Near 0 an odd polynomial, x p(x^2) to 5e-10; from 0.92 on 1 - e^(-q(|x|)) with q = -log(erfc) to 2e-8, 1 beyond 4.
inline vfloat erf(vfloat x) {
  vfloat const size = abs(x);
  vfloat const t = x * x;
  vfloat p = t * 8.351897122338414e-05f - 0.000813879247289151f;
  p = p * t + 0.005200729705393314f;
  p = p * t - 0.02685929648578167f;
  p = p * t + 0.11283694207668304f;
  p = p * t - 0.37612634897232056f;
  p = p * t + 0.128379225730896f;
  vfloat const a = size > 4.0f ? all(4.0f) : size;
  vfloat q = a * -1.6435697034467012e-06f + 4.6177912736311555e-05f;
  q = q * a - 0.0005977434921078384f;
  q = q * a + 0.00476357527077198f;
  q = q * a - 0.026431018486618996f;
  q = q * a + 0.11009448021650314f;
  q = q * a + 0.6318145394325256f;
  q = q * a + 1.1302375793457031f;
  q = q * a - 0.00032044152612797916f;
  vfloat const far = from_bits(bits(1.0f - exp(-q)) | (bits(x) & int32_t(0x80000000)));
  return size < 0.92f ? x + x * p : far;
}
""",
}
