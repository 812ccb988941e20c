//// product
// get: torch.randn(48, 200), torch.randn(200, 56)
// forward a, b: return a @ b
//// product: one accumulator
void run(TensorView a, TensorView b, TensorView y) {
  for (int i = 0; i < 48; ++i)
    for (int j = 0; j < 56; ++j) {
      float sum = 0;
      for (int k = 0; k < 200; ++k) sum += in(a)[i * 200 + k] * in(b)[k * 56 + j];
      out(y)[i * 56 + j] = sum;
    }
}
//// product: rows of b, in blocks
void run(TensorView a, TensorView b, TensorView y) {
  std::fill_n(out(y), 48 * 56, 0.f);
  for (int first = 0; first < 200; first += 40)
    for (int i = 0; i < 48; ++i) {
      float acc[56] = {};
      for (int k = first; k < first + 40; ++k)
        for (int j = 0; j < 56; ++j) acc[j] = std::fma(in(a)[i * 200 + k], in(b)[k * 56 + j], acc[j]);
      for (int j = 0; j < 56; ++j) out(y)[i * 56 + j] += acc[j];
    }
}
//// linear
// init: self.linear = nn.Linear(96, 40)
// get: torch.randn(30, 96)
// forward x: return F.gelu(self.linear(x))
//// linear: fused
void run(TensorView x, TensorView w, TensorView b, TensorView y) {
  for (int i = 0; i < 30; ++i)
    for (int j = 0; j < 40; ++j) {
      float const v = lanes(96, [&](int64_t k) { return in(x)[i * 96 + k] * in(w)[j * 96 + k]; }) + in(b)[j];
      out(y)[i * 40 + j] = 0.5f * v * std::erfc(v * -0.70710678f);
    }
}
//// linear: with erf
void run(TensorView x, TensorView w, TensorView b, TensorView y) {
  for (int i = 0; i < 30; ++i)
    for (int j = 0; j < 40; ++j) {
      float v = in(b)[j];
      for (int k = 0; k < 96; ++k) v += in(x)[i * 96 + k] * in(w)[j * 96 + k];
      out(y)[i * 40 + j] = 0.5f * v * (1 + std::erf(v * 0.70710678f));
    }
}
//// tied
// init: self.into = nn.Linear(32, 48, bias=False); self.back = nn.Linear(32, 48, bias=False); self.back.weight = self.into.weight
// get: torch.randn(20, 32)
// forward x: return torch.relu(self.into(x)) @ self.back.weight
//// tied: a row at a time
void run(TensorView x, TensorView w, TensorView y) {
  for (int r = 0; r < 20; ++r) {
    float hidden[48];
    for (int j = 0; j < 48; ++j) {
      float const v = lanes(32, [&](int64_t k) { return in(x)[r * 32 + k] * in(w)[j * 32 + k]; });
      hidden[j] = v < 0 ? 0 : v;
    }
    for (int k = 0; k < 32; ++k)
      out(y)[r * 32 + k] = lanes(48, [&](int64_t j) { return hidden[j] * in(w)[j * 32 + k]; });
  }
}
//// batched
// get: torch.randn(5, 20, 30), torch.randn(5, 30, 25)
// forward a, b: return torch.bmm(a, b) + 1
//// batched: plain
void run(TensorView a, TensorView b, TensorView y) {
#pragma omp parallel for
  for (int t = 0; t < 5; ++t)
    for (int i = 0; i < 20; ++i)
      for (int j = 0; j < 25; ++j) {
        float sum = 0;
        for (int k = 0; k < 30; ++k) sum += in(a)[(t * 20 + i) * 30 + k] * in(b)[(t * 30 + k) * 25 + j];
        out(y)[(t * 20 + i) * 25 + j] = sum + 1;
      }
}
//// lower triangle
// get: torch.randn(60, 60).tril(), torch.randn(60, 60).tril()
// forward a, b: return torch.tril(a @ b)
//// lower triangle: without what is zero
void run(TensorView a, TensorView b, TensorView y) {
  std::fill_n(out(y), 3600, 0.f);
  for (int i = 0; i < 60; ++i)
    for (int k = 0; k < 60; ++k)
      for (int j = 0; j <= i && in(a)[i * 60 + k] != 0; ++j) out(y)[i * 60 + j] += in(a)[i * 60 + k] * in(b)[k * 60 + j];
}
//// convolution
// init: self.conv = nn.Conv2d(4, 6, 3, padding=1)
// get: torch.randn(2, 4, 14, 15)
// forward x: return torch.relu(self.conv(x))
//// convolution: direct
void run(TensorView x, TensorView w, TensorView b, TensorView y) {
  for (int n = 0; n < 2; ++n)
    for (int o = 0; o < 6; ++o)
      for (int r = 0; r < 14; ++r)
        for (int c = 0; c < 15; ++c) {
          float sum = in(b)[o];
          for (int i = 0; i < 4; ++i)
            for (int u = std::max(0, 1 - r); u < std::min(3, 15 - r); ++u)
              for (int v = std::max(0, 1 - c); v < std::min(3, 16 - c); ++v)
                sum += in(x)[((n * 4 + i) * 14 + r + u - 1) * 15 + c + v - 1] * in(w)[((o * 4 + i) * 3 + u) * 3 + v];
          out(y)[((n * 6 + o) * 14 + r) * 15 + c] = sum < 0 ? 0 : sum;
        }
}
//// distances
// get: torch.randn(30, 20), torch.randn(25, 20)
// forward a, b: return (a[:, None] - b[None]).square().sum(-1)
//// distances: of differences
void run(TensorView a, TensorView b, TensorView y) {
  for (int i = 0; i < 30; ++i)
    for (int j = 0; j < 25; ++j) {
      float sum = 0;
      for (int k = 0; k < 20; ++k) sum += (in(a)[i * 20 + k] - in(b)[j * 20 + k]) * (in(a)[i * 20 + k] - in(b)[j * 20 + k]);
      out(y)[i * 25 + j] = sum;
    }
}
