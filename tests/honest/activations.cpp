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
