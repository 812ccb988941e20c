"""Branch-free float32 functions on SIMD registers, as C++ text: within 3 ulp, right at the special values.

Coefficients of polynomials: Chebyshev interpolation with 40 digits of the quotient that each comment names, rounded to
float32. The table of `erf`: `tests/knowledge/fit_erf.py`. The largest errors that were found over every 97th float32
(`tests/knowledge/lane_math.py 97`, 16 lanes, AMD EPYC with AVX-512, g++ 12.2), in units of the last place: exp 0.85,
exp2 0.87, expm1 1.41, log 0.80, log2 1.70, log10 1.90, log1p 1.40, tanh 2.40, erf 2.27. The same
over every 9973rd, 8 lanes, AVX2: sin 1.39, cos 1.45, tan 2.89, atan 2.57; pow 0.94 with 0.45, -1.5, 3 and -1/16.
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
    "clip": """
// Between two numbers; NaN stays NaN.
template <class V> inline V clip(V x, float low, float high) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) {
    return V(_mm512_min_ps(_mm512_set1_ps(high), _mm512_max_ps(_mm512_set1_ps(low), __m512(x))));
  }
#endif
#if defined(__AVX__)
  if constexpr (sizeof(V) == 32) {
    return V(_mm256_min_ps(_mm256_set1_ps(high), _mm256_max_ps(_mm256_set1_ps(low), __m256(x))));
  }
#endif
  x = x > high ? all(high) : x;
  return x < low ? all(low) : x;
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
  x = clip(x, -106.0f, 90.0f);
  vfloat const n = nearest(x * 1.44269504088896341f);
  vfloat const r = (x - n * 0.693359375f) - n * -2.12194440054690583e-4f;
  return scale(1.0f + r * (1.0f + r * exp_series(r)), n);
}
""",
    "exp2": """
inline vfloat exp2(vfloat x) {
  x = clip(x, -152.0f, 130.0f);
  vfloat const n = nearest(x);
  vfloat const r = (x - n) * 0.693147180559945309f;
  return scale(1.0f + r * (1.0f + r * exp_series(r)), n);
}
""",
    "expm1": """
// e^x - 1 = 2 (t (e^r - 1) + (t - 1/2)) with t = 2^(n-1): nothing cancels near 0, nothing overflows early.
inline vfloat expm1(vfloat x) {
  vfloat const capped = clip(x, -30.0f, 90.0f);
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
// With m = e^(2|x|) - 1 = 2^n (e^r - 1) + (2^n - 1), tanh |x| = m / (m + 2); from 10 on it rounds to 1.
inline vfloat tanh(vfloat x) {
  vfloat const size = clip(abs(x), 0.0f, 10.0f) * 2.0f;
  vfloat const n = nearest(size * 1.44269504088896341f);
  vfloat const r = (size - n * 0.693359375f) - n * -2.12194440054690583e-4f;
  vfloat const t = scale(all(1.0f), n);
  vfloat const m = t * (r + r * r * exp_series(r)) + (t - 1.0f);
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
    "pick": """
// Of a table of 16 numbers the one that the low 4 bits of each lane name.
template <class I> inline vfloat pick(float const (&table)[16], I index) {
#if defined(__AVX512F__)
  if constexpr (sizeof(I) == 64) { return vfloat(_mm512_permutexvar_ps(__m512i(index), _mm512_load_ps(table))); }
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(I) == 32) {
    __m256 const low = _mm256_permutevar8x32_ps(_mm256_load_ps(table), __m256i(index));
    __m256 const high = _mm256_permutevar8x32_ps(_mm256_load_ps(table + 8), __m256i(index));
    return vfloat(_mm256_blendv_ps(low, high, __m256(index << 28)));
  }
#endif
  vfloat result;
  for (int k = 0; k < kLanes; ++k) { result[k] = table[index[k] & 15]; }
  return result;
}
""",
    "erf": """
// A polynomial of degree 5 for each stretch of 17/64, the 16 of each coefficient in a row; from 4 on it rounds to 1.
inline vfloat erf(vfloat x) {
  alignas(64) static constexpr float series[6][16] = {
    {0.0f, 0.2928232252597809f, 0.5475284457206726f, 0.7402369976043701f, 0.867058277130127f, 0.9396533370018005f,
     0.975797712802887f, 0.991450309753418f, 0.9973459839820862f, 0.9992774128913879f, 0.9998276829719543f,
     0.9999640583992004f, 0.9999934434890747f, 0.9999989867210388f, 0.9999998807907104f, 1.0f},
    {1.1283791065216064f, 1.0515083074569702f, 0.8509138822555542f, 0.5979623198509216f, 0.36490288376808167f,
     0.19337309896945953f, 0.08898772299289703f, 0.035561446100473404f, 0.012340820394456387f, 0.003718980820849538f,
     0.000973238202277571f, 0.00022117176558822393f, 4.364712367532775e-05f, 7.479920896003023e-06f,
     1.1131504606964882e-06f, 1.4385544488959567e-07f},
    {0.0f, -0.2792995274066925f, -0.45203953981399536f, -0.4764975905418396f, -0.38771116733551025f,
     -0.25682753324508667f, -0.14182694256305695f, -0.06612288951873779f, -0.026223931461572647f,
     -0.008890149183571339f, -0.002584796631708741f, -0.0006460647564381361f, -0.00013906386448070407f,
     -2.5811532395891845e-05f, -4.135405561100924e-06f, -5.723703679905157e-07f},
    {-0.3761216998100281f, -0.30103957653045654f, -0.12353899329900742f, 0.05381719768047333f, 0.15299095213413239f,
     0.1629381775856018f, 0.1210266649723053f, 0.07011088728904724f, 0.033037733286619186f, 0.012929841876029968f,
     0.004253361839801073f, 0.0011850065784528852f, 0.0002810541191138327f, 5.695460640708916e-05f,
     9.888094609777909e-06f, 1.4737939864062355e-06f},
    {0.0f, 0.1319722682237625f, 0.182216614484787f, 0.13684186339378357f, 0.048238616436719894f,
     -0.022004462778568268f, -0.048751410096883774f, -0.043015845119953156f, -0.026408296078443527f,
     -0.012573323212563992f, -0.004842928145080805f, -0.001541803008876741f, -0.00041085659177042544f,
     -9.239129576599225e-05f, -1.763161526469048e-05f, -2.867076318580075e-06f},
    {0.112129807472229f, 0.07577858120203018f, -0.001725961221382022f, -0.05943869799375534f, -0.06594930589199066f,
     -0.03687014803290367f, -0.005121039692312479f, 0.010917333886027336f, 0.012445873580873013f,
     0.008071180433034897f, 0.0038286445196717978f, 0.0014288317179307342f, 0.0004334212571848184f,
     0.00010879667388508096f, 2.285199298057705e-05f, 4.046486083097989e-06f},
  };
  vfloat const size = abs(clip(x, -4.0f, 4.0f));
  vfloat const shifted = size * 3.764705882352941f + 12582912.0f;  // its lowest bits are the stretch's number
  vint const stretch = bits(shifted);
  vfloat const d = size - (shifted - 12582912.0f) * 0.265625f;
  vfloat p = pick(series[5], stretch) * d + pick(series[4], stretch);
  p = p * d + pick(series[3], stretch);
  p = p * d + pick(series[2], stretch);
  p = p * d + pick(series[1], stretch);
  p = p * d + pick(series[0], stretch);
  return from_bits(bits(p) | (bits(x) & int32_t(0x80000000)));
}
""",
    "by_lanes": """
// The C library's value in each lane that a mask names: rare ones, beyond where a polynomial holds.
template <class F> inline void by_lanes(vmask rare, vfloat& result, F f) {
  int any = 0;
  for (int k = 0; k < kLanes; ++k) { any |= rare[k]; }
  if (any == 0) { return; }
  for (int k = 0; k < kLanes; ++k) {
    if (rare[k]) { result[k] = f(k); }
  }
}
""",
    "quarter_turns": """
// x = n pi / 2 + r: n's lowest bits, and r, which double keeps exact next to multiples of pi / 2.
inline vint quarter_turns(vfloat x, vfloat& r) {
  vfloat const n = nearest(x * 0.636619772367581343f);
  vdouble const turns = convert<vdouble>(n);
  // pi / 2 in two parts, the first so short that n times it is exact.
  vdouble const left = convert<vdouble>(x) - turns * 1.57079632673412561417;
  r = convert<vfloat>(left - turns * 6.07710050650619224932e-11);
  return __builtin_convertvector(n, vint);
}
""",
    "sin_series": """
// sin r for |r| <= pi / 4, and cos r.
inline vfloat sin_series(vfloat r) {
  vfloat const z = r * r;
  vfloat const q = (z * -1.95152959e-4f + 8.33216087e-3f) * z - 0.166666546f;
  return r + r * z * q;
}
inline vfloat cos_series(vfloat r) {
  vfloat const z = r * r;
  vfloat const q = (z * 2.44331571e-5f - 1.38873163e-3f) * z + 4.16666456e-2f;
  return 1.0f - z * 0.5f + z * z * q;
}
""",
    "sin": """
inline vfloat sin(vfloat x) {
  vfloat r;
  vint const n = quarter_turns(x, r);
  vfloat result = (n & 1) != 0 ? cos_series(r) : sin_series(r);
  result = from_bits(bits(result) ^ ((n & 2) << 30));
  by_lanes(~(abs(x) <= 1e6f), result, [&](int k) { return std::sin(x[k]); });
  return x == 0.0f ? x : result;
}
""",
    "cos": """
inline vfloat cos(vfloat x) {
  vfloat r;
  vint const n = quarter_turns(x, r) + 1;
  vfloat result = (n & 1) != 0 ? cos_series(r) : sin_series(r);
  result = from_bits(bits(result) ^ ((n & 2) << 30));
  by_lanes(~(abs(x) <= 1e6f), result, [&](int k) { return std::cos(x[k]); });
  return result;
}
""",
    "tan": """
inline vfloat tan(vfloat x) {
  vfloat r;
  vint const n = quarter_turns(x, r);
  vfloat const s = sin_series(r), c = cos_series(r);
  vfloat result = (n & 1) != 0 ? -c / s : s / c;
  by_lanes(~(abs(x) <= 1e6f), result, [&](int k) { return std::tan(x[k]); });
  return x == 0.0f ? x : result;
}
""",
    "atan": """
// atan t = pi/4 + atan((t - 1) / (t + 1)) = pi/2 + atan(-1 / t): what is left is below tan(pi / 8).
inline vfloat atan(vfloat x) {
  vfloat const t = abs(x);
  vmask const far = t > 2.41421356f, near = t <= 0.41421356f;
  vfloat const u = (far ? all(-1.0f) : near ? t : t - 1.0f) / (far ? t : near ? all(1.0f) : t + 1.0f);
  vfloat const z = u * u;
  vfloat q = z * 8.05374450e-2f - 0.138776856f;
  q = q * z + 0.199777106f;
  q = q * z - 0.333329492f;
  vfloat const turned = far ? all(1.57079632679f) : near ? all(0.0f) : all(0.785398163397f);
  vfloat const result = turned + (q * z * u + u);
  return from_bits(bits(result) | (bits(x) & int32_t(0x80000000)));
}
""",
    "pow": """
// 2^(y log2 x), the product in double: x = 2^e (1 + f), log(1 + f) = 2 atanh(f / (2 + f)).
inline vfloat pow(vfloat x, vfloat y) {
  vfloat e, f;
  log_parts(x, e, f);
  vdouble const wide = convert<vdouble>(f), s = wide / (wide + 2.0), z = s * s;
  vdouble q = z * 0.0769230769 + 0.0909090909090909;
  q = q * z + 0.111111111111111111;
  q = q * z + 0.142857142857142857;
  q = q * z + 0.2;
  q = q * z + 0.333333333333333333;
  vdouble const log2 = convert<vdouble>(e) + (s + s * z * q) * 2.88539008177792681472;
  vdouble const power = convert<vdouble>(y) * log2;
  vfloat const n = nearest(clip(convert<vfloat>(power), -152.0f, 130.0f));
  vfloat const r = clip(convert<vfloat>(power - convert<vdouble>(n)), -1.0f, 1.0f) * 0.693147180559945309f;
  vfloat result = scale(1.0f + r * (1.0f + r * exp_series(r)), n);
  result = (bits(x) == 0) & (y > 0.0f) ? all(0.0f) : result;
  vmask const plain = (x > 0.0f) & (x < float(INFINITY)) & (abs(y) < float(INFINITY));
  by_lanes(~(plain | ((bits(x) == 0) & (y > 0.0f))), result, [&](int k) { return std::pow(x[k], y[k]); });
  return result;
}
""",
}
