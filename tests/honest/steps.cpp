//// a cell
// init: self.u = nn.Linear(16, 24); self.h = nn.Linear(24, 24)
// get: torch.randn(10, 16), torch.randn(10, 24)
// forward x, h: return torch.tanh(self.u(x) + self.h(h))
//// a cell: both products in one sum
void run(TensorView x, TensorView h, TensorView a, TensorView b, TensorView c, TensorView d, TensorView y) {
  for (int r = 0; r < 10; ++r)
    for (int j = 0; j < 24; ++j) {
      float sum = in(b)[j] + in(d)[j];
      for (int k = 0; k < 16; ++k) sum += in(x)[r * 16 + k] * in(a)[j * 16 + k];
      for (int k = 0; k < 24; ++k) sum += in(h)[r * 24 + k] * in(c)[j * 24 + k];
      out(y)[r * 24 + j] = std::tanh(sum);
    }
}
//// a gated cell
// init: self.cell = nn.GRUCell(12, 10)
// get: torch.randn(6, 12), torch.randn(6, 10)
// forward x, h: return self.cell(x, h)
//// a gated cell: three gates
static float sigmoid(float v) { return 1 / (1 + std::exp(-v)); }
void run(TensorView x, TensorView h, TensorView wi, TensorView wh, TensorView bi, TensorView bh, TensorView y) {
  for (int r = 0; r < 6; ++r) {
    float a[30], b[30];
    for (int j = 0; j < 30; ++j) {
      a[j] = in(bi)[j], b[j] = in(bh)[j];
      for (int k = 0; k < 12; ++k) a[j] += in(x)[r * 12 + k] * in(wi)[j * 12 + k];
      for (int k = 0; k < 10; ++k) b[j] += in(h)[r * 10 + k] * in(wh)[j * 10 + k];
    }
    for (int j = 0; j < 10; ++j) {
      float const reset = sigmoid(a[j] + b[j]), update = sigmoid(a[j + 10] + b[j + 10]);
      float const fresh = std::tanh(a[j + 20] + reset * b[j + 20]);
      out(y)[r * 10 + j] = fresh + update * (in(h)[r * 10 + j] - fresh);
    }
  }
}
//// a step of Adam
// get: torch.randn(500), torch.randn(500), torch.randn(500) * 0.1, torch.rand(500) * 0.1
// forward p, g, m, v: n = 0.9 * m + 0.1 * g; s = 0.999 * v + 0.001 * g * g; return p - 0.01 * n / (s.sqrt() + 1e-8), n, s
//// a step of Adam: in one pass
void run(TensorView p, TensorView g, TensorView m, TensorView v, TensorView a, TensorView b, TensorView c) {
#pragma omp parallel for simd
  for (int i = 0; i < 500; ++i) {
    float const d = in(g)[i], n = 0.9f * in(m)[i] + 0.1f * d, s = 0.999f * in(v)[i] + 0.001f * d * d;
    out(a)[i] = in(p)[i] - 0.01f * n / (std::sqrt(s) + 1e-8f);
    out(b)[i] = n;
    out(c)[i] = s;
  }
}
//// a step with momentum
// get: torch.randn(600), torch.randn(600), torch.randn(600)
// forward p, g, m: n = 0.9 * m + g; return p - 0.1 * (g + 0.9 * n)
//// a step with momentum: fused multiply and add
void run(TensorView p, TensorView g, TensorView m, TensorView y) {
  for (int i = 0; i < 600; ++i) {
    float const n = std::fma(0.9f, in(m)[i], in(g)[i]);
    out(y)[i] = std::fma(-0.1f, std::fma(0.9f, n, in(g)[i]), in(p)[i]);
  }
}
//// clipped by norm
// get: torch.randn(30, 100)
// forward x: return x * (1 / torch.clamp(x.norm(dim=1, keepdim=True), min=1))
//// clipped by norm: rows
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 30; ++r) {
    float const* row = in(x) + r * 100;
    float const norm = std::sqrt(lanes(100, [&](int64_t i) { return row[i] * row[i]; }));
    float const scale = 1 / (norm < 1 ? 1 : norm);
    for (int i = 0; i < 100; ++i) out(y)[r * 100 + i] = row[i] * scale;
  }
}
//// averaged weights
// get: torch.randn(40, 30), torch.randn(40, 30)
// forward a, b: return torch.lerp(a, b, 0.25)
//// averaged weights: one multiplication
void run(TensorView a, TensorView b, TensorView y) {
  for (int64_t i = 0; i < a.numel(); ++i) out(y)[i] = in(a)[i] + 0.25f * (in(b)[i] - in(a)[i]);
}
//// decayed states
// get: torch.rand(8, 16), torch.randn(8, 16), torch.randn(8, 16)
// forward a, x, h: return a * h + (1 - a) * x
//// decayed states: by the difference
void run(TensorView a, TensorView x, TensorView h, TensorView y) {
  for (int64_t i = 0; i < a.numel(); ++i) out(y)[i] = in(a)[i] * in(h)[i] + (1 - in(a)[i]) * in(x)[i];
}
//// experts
// init: self.w = nn.Parameter(torch.randn(4, 16, 12) * 0.2)
// get: torch.randn(30, 16), torch.randint(0, 4, (30,))
// forward x, e: return torch.einsum("rk,rkn->rn", x, self.w[e])
//// experts: rows by their expert
void run(TensorView x, TensorView e, TensorView w, TensorView y) {
  for (int r = 0; r < 30; ++r) {
    float const* weight = in(w) + in<int64_t>(e)[r] * 192;
    for (int n = 0; n < 12; ++n) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += in(x)[r * 16 + k] * weight[k * 12 + n];
      out(y)[r * 12 + n] = sum;
    }
  }
}
//// low rank
// init: self.a = nn.Linear(48, 4, bias=False); self.b = nn.Linear(4, 40, bias=False)
// get: torch.randn(20, 48)
// forward x: return self.b(self.a(x)) * 2
//// low rank: the small product first
void run(TensorView x, TensorView a, TensorView b, TensorView y) {
  std::array<float, 4> small{};
  for (int r = 0; r < 20; ++r) {
    for (int k = 0; k < 4; ++k)
      small[k] = lanes(48, [&](int64_t i) { return in(x)[r * 48 + i] * in(a)[k * 48 + i]; });
    for (int j = 0; j < 40; ++j)
      out(y)[r * 40 + j] = 2 * (small[0] * in(b)[j * 4] + small[1] * in(b)[j * 4 + 1] + small[2] * in(b)[j * 4 + 2] +
                                small[3] * in(b)[j * 4 + 3]);
  }
}
//// gated hidden layer
// init: self.g = nn.Linear(24, 32, bias=False); self.u = nn.Linear(24, 32, bias=False); self.d = nn.Linear(32, 24, bias=False)
// get: torch.randn(12, 24)
// forward x: return self.d(F.silu(self.g(x)) * self.u(x))
//// gated hidden layer: packed anew in each call
void run(TensorView x, TensorView g, TensorView u, TensorView d, TensorView y) {
  std::vector<float> packed(24 * 64);
  for (int j = 0; j < 32; ++j)
    for (int k = 0; k < 24; ++k) {
      packed[k * 64 + j] = in(g)[j * 24 + k];
      packed[k * 64 + 32 + j] = in(u)[j * 24 + k];
    }
#pragma omp parallel for
  for (int r = 0; r < 12; ++r) {
    float both[64] = {};
    for (int k = 0; k < 24; ++k)
      for (int j = 0; j < 64; ++j) both[j] += in(x)[r * 24 + k] * packed[k * 64 + j];
    for (int j = 0; j < 32; ++j) both[j] = both[j] / (1 + std::exp(-both[j])) * both[j + 32];
    for (int i = 0; i < 24; ++i) {
      float sum = 0;
      for (int j = 0; j < 32; ++j) sum += both[j] * in(d)[i * 32 + j];
      out(y)[r * 24 + i] = sum;
    }
  }
}
