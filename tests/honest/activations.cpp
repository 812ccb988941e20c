//// gelu
// get: torch.randn(64, 1000)
// forward x: return F.gelu(x, approximate="tanh")
//// gelu: tanh
void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const v = in(x)[i], u = 0.7978845608f * (v + 0.044715f * v * v * v);
    out(y)[i] = 0.5f * v * (1 + std::tanh(u));
  }
}
//// gelu: by the sigmoid
void run(TensorView x, TensorView y) {
#pragma omp parallel for
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const v = in(x)[i], u = 1.5957691216f * v * (1 + 0.044715f * v * v);
    out(y)[i] = v / (1 + std::exp(-u));
  }
}
//// swish
// get: torch.randn(64, 1000)
// forward x: return x * torch.sigmoid(x)
//// swish: exp
void run(TensorView x, TensorView y) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = in(x)[i] / (1 + std::exp(-in(x)[i]));
}
//// swish: exp2
void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = in(x)[i] / (1 + std::exp2(in(x)[i] * -1.44269504f));
}
//// swish: a polynomial and a shift of exponents
static float exponential(float x) {
  bool const below = x < -87;
  x = std::min(std::max(x, -87.f), 88.f);
  float const k = std::nearbyint(x * 1.44269504f), r = std::fma(k, 2.12194440e-4f, std::fma(k, -0.693359375f, x));
  float p = 1.9875691500e-4f;
  for (float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
    p = std::fma(p, r, c);
  float const value = std::fma(p * r, r, r + 1);
  int32_t const bits = (static_cast<int32_t>(k) + 127) << 23;
  float power;
  std::memcpy(&power, &bits, 4);
  return below ? 0 : value * power;
}
void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const v = in(x)[i], e = exponential(-std::abs(v)), s = v < 0 ? e / (1 + e) : 1 / (1 + e);
    out(y)[i] = std::isnan(v) ? v : v * s;
  }
}
//// mish
// get: torch.randn(64, 500)
// forward x: return x * torch.tanh(F.softplus(x))
//// mish: log1p
void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const v = in(x)[i];
    out(y)[i] = v * std::tanh(v > 20 ? v : std::log1p(std::exp(v)));
  }
}
//// mish: a quotient
void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const v = in(x)[i], e = std::exp(std::min(v, 20.f)), n = e * (e + 2);
    out(y)[i] = v > 20 ? v : std::isnan(v) ? v : v * (n / (n + 2));
  }
}
//// elu
// get: torch.randn(64, 500), 1.5
// forward x, alpha: return F.elu(x, alpha)
//// elu: expm1
void run(TensorView x, double alpha, TensorView y) {
  float const a = alpha;
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const v = in(x)[i];
    out(y)[i] = v > 0 ? v : a * std::expm1(v);
  }
}
//// scaled by a number
// init: self.alpha = nn.Parameter(torch.tensor(0.7))
// get: torch.randn(50, 333)
// forward x: return torch.where(x > 0, x, self.alpha * x)
//// scaled by a number: select
void run(TensorView x, TensorView alpha, TensorView y) {
  float const a = *in(alpha);
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = in(x)[i] > 0 ? in(x)[i] : a * in(x)[i];
}
//// a function kept
// init: self.shift = nn.Parameter(torch.rand(40)); self.act = lambda v: torch.tanh(v + self.shift)
// get: torch.randn(64, 40)
// forward x: return self.act(x) * self.shift
//// a function kept: tanh
void run(TensorView x, TensorView shift, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const s = in(shift)[i % 40];
    out(y)[i] = std::tanh(in(x)[i] + s) * s;
  }
}
//// both
// get: torch.randn(32, 200)
// forward x: return torch.sin(x), torch.cos(x), x > 0
//// both: sin and cos
void run(TensorView x, TensorView s, TensorView c, TensorView positive) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    out(s)[i] = std::sin(in(x)[i]);
    out(c)[i] = std::cos(in(x)[i]);
    out<bool>(positive)[i] = in(x)[i] > 0;
  }
}
//// double
// get: torch.randn(32, 200, dtype=torch.float64)
// forward x: return torch.exp(-x * x) * torch.log1p(x * x)
//// double: as written
void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    double const q = in<double>(x)[i] * in<double>(x)[i];
    out<double>(y)[i] = std::exp(-q) * std::log1p(q);
  }
}
//// bfloat16
// get: torch.randn(64, 300, dtype=torch.bfloat16), torch.randn(300, dtype=torch.bfloat16)
// forward x, b: return torch.relu(x * 2 + b)
//// bfloat16: rounded once
void run(TensorView x, TensorView b, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const v = wide(in<uint16_t>(x)[i]) * 2 + wide(in<uint16_t>(b)[i % 300]);
    out<uint16_t>(y)[i] = narrow(v < 0 ? 0 : v);
  }
}
//// hard ones
// get: torch.randn(60, 80) * 3
// forward x: return F.hardswish(x) + F.relu6(x)
//// hard ones: comparisons
void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const v = in(x)[i], c = v + 3 < 0 ? 0 : v + 3 > 6 ? 6 : v + 3, r = v < 0 ? 0 : v > 6 ? 6 : v;
    out(y)[i] = v * c * (1 / 6.f) + r;
  }
}
//// logarithm of a sigmoid
// get: torch.randn(60, 80) * 3
// forward x: return F.logsigmoid(x)
//// logarithm of a sigmoid: the smaller of both
void run(TensorView x, TensorView y) {
#pragma omp parallel for
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const v = in(x)[i];
    out(y)[i] = (v < 0 || std::isnan(v) ? v : 0) - std::log1p(std::exp(-std::abs(v)));
  }
}
//// leaky
// get: torch.randn(60, 80)
// forward x: return F.leaky_relu(x, 0.1)
//// leaky: a factor by sign
template <class Value> static Value leaky(Value v, Value slope) { return v * (v > 0 ? Value(1) : slope); }
void run(TensorView x, TensorView y) {
  std::transform(in(x), in(x) + x.numel(), out(y), [](float v) { return leaky(v, 0.1f); });
}
//// hyperbolic
// get: torch.randn(60, 80) * 2
// forward x: return torch.tanh(x)
//// hyperbolic: by expm1
void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const v = in(x)[i], e = std::expm1(-2 * std::abs(v));
    out(y)[i] = std::isnan(v) ? v : std::copysign(-e / (e + 2), v);
  }
}
//// root of squares
// get: torch.randn(60, 80), torch.randn(60, 80)
// forward a, b: return torch.sqrt(a * a + b * b + 1e-6)
//// root of squares: fused
void run(TensorView a, TensorView b, TensorView y) {
  for (int64_t i = 0; i < a.numel(); ++i)
    out(y)[i] = std::sqrt(std::fma(in(a)[i], in(a)[i], std::fma(in(b)[i], in(b)[i], 1e-6f)));
}
//// a polynomial
// get: torch.rand(50, 60)
// forward x: return 1 + x * (0.5 + x * (0.25 + x * (0.125 + x * 0.0625)))
//// a polynomial: coefficients in an array
void run(TensorView x, TensorView y) {
  constexpr float coefficients[] = {0.125f, 0.25f, 0.5f, 1.f};
#pragma omp simd
  for (int64_t i = 0; i < 3000; ++i) {
    float sum = 0.0625f;
    for (float c : coefficients) sum = std::fma(sum, in(x)[i], c);
    out(y)[i] = sum;
  }
}
//// exponentials
// get: torch.randn(60, 80)
// forward x: return torch.exp(x) + torch.exp(-x)
//// exponentials: tables of sixteenths
void run(TensorView x, TensorView y) {
  double power[16];
  for (int k = 0; k < 16; ++k) power[k] = std::exp2(k / 16.0);
  auto exponential = [&](float v) -> float {
    if (!(std::abs(v) < 87)) return std::exp(v);
    double const k = std::nearbyint(v * 23.083120654223414), r = v - k * 0.04332169878499658;
    int const n = static_cast<int>(k), part = n & 15;
    return static_cast<float>(std::ldexp(power[part] * (1 + r * (1 + r * (0.5 + r * (1 / 6. + r / 24)))), (n - part) / 16));
  };
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = exponential(in(x)[i]) + exponential(-in(x)[i]);
}
//// positive and negative
// get: torch.randn(50, 30)
// forward x: return torch.cat([torch.relu(x), torch.relu(-x)], 1)
//// positive and negative: dispatched at compile time
#ifdef __AVX2__
#include <immintrin.h>
static void eight(float const* x, float* up, float* down) {
  __m256 const v = _mm256_loadu_ps(x), zero = _mm256_setzero_ps();
  _mm256_storeu_ps(up, _mm256_max_ps(zero, v));
  _mm256_storeu_ps(down, _mm256_max_ps(zero, _mm256_sub_ps(zero, v)));
}
#else
static void eight(float const* x, float* up, float* down) {
  for (int i = 0; i < 8; ++i) up[i] = x[i] < 0 ? 0 : x[i], down[i] = -x[i] < 0 ? 0 : -x[i];
}
#endif
void run(TensorView x, TensorView y) {
  for (int r = 0; r < 50; ++r) {
    float const* row = in(x) + r * 30;
    int i = 0;
    for (; i + 8 <= 30; i += 8) eight(row + i, out(y) + r * 60 + i, out(y) + r * 60 + 30 + i);
    for (; i < 30; ++i) out(y)[r * 60 + i] = row[i] < 0 ? 0 : row[i], out(y)[r * 60 + 30 + i] = row[i] > 0 ? 0 : -row[i];
  }
}
