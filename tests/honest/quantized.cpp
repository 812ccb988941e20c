//// codes
// get: torch.randn(40, 96)
// forward x: return torch.clamp(torch.round(x / 0.05), -128, 127).to(torch.int8)
//// codes: by the reciprocal
void run(TensorView x, TensorView y) {
  float const inverse = 1 / 0.05f;
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const v = std::nearbyint(in(x)[i] * inverse);
    out<int8_t>(y)[i] = static_cast<int8_t>(std::min(std::max(v, -128.f), 127.f));
  }
}
//// codes: by a quotient
void run(TensorView x, TensorView y) {
#pragma omp parallel for
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const v = std::rint(in(x)[i] / 0.05f);
    out<int8_t>(y)[i] = v < -128 ? -128 : v > 127 ? 127 : static_cast<int8_t>(v);
  }
}
//// codes of rows
// get: torch.randn(24, 100)
// forward x: s = x.abs().amax(1, keepdim=True) / 127 + 1e-9; return torch.round(x / s).to(torch.int8), s
//// codes of rows: one reciprocal a row
void run(TensorView x, TensorView y, TensorView s) {
  for (int64_t r = 0; r < 24; ++r) {
    float const* row = in(x) + r * 100;
    float most = 0;
    for (int i = 0; i < 100; ++i) {
      float const v = std::abs(row[i]);
      most = v > most || std::isnan(v) ? v : most;
    }
    float const scale = most / 127 + 1e-9f, inverse = 1 / scale;
    out(s)[r] = scale;
    for (int i = 0; i < 100; ++i) out<int8_t>(y)[r * 100 + i] = static_cast<int8_t>(std::lrint(row[i] * inverse));
  }
}
//// fake quantization
// get: torch.randn(50, 64)
// forward x: return torch.clamp(torch.round(x * 16), -128, 127) / 16
//// fake quantization: add and take away
void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const v = in(x)[i] * 16, c = v < -128 ? -128 : v > 127 ? 127 : v;
    out(y)[i] = ((c + 12582912.f) - 12582912.f) / 16;
  }
}
//// from codes
// init: self.scale = nn.Parameter(torch.rand(12) + 0.5)
// get: torch.randint(-8, 8, (12, 40), dtype=torch.int8)
// forward codes: return codes.float() * self.scale[:, None]
//// from codes: by a table a row
void run(TensorView codes, TensorView scale, TensorView y) {
  for (int64_t r = 0; r < 12; ++r) {
    float table[256];
    for (int k = 0; k < 256; ++k) table[k] = static_cast<float>(k - 128) * in(scale)[r];
    for (int i = 0; i < 40; ++i) out(y)[r * 40 + i] = table[in<int8_t>(codes)[r * 40 + i] + 128];
  }
}
//// product of codes
// get: torch.randint(-8, 8, (20, 64), dtype=torch.int8), torch.randint(-8, 8, (30, 64), dtype=torch.int8)
// forward a, b: return a.int() @ b.int().t()
//// product of codes: integers, four at a time
void run(TensorView a, TensorView b, TensorView y) {
  for (int i = 0; i < 20; ++i)
    for (int j = 0; j < 30; ++j) {
      int32_t sum[4] = {};
      for (int k = 0; k < 64; ++k) sum[k % 4] += in<int8_t>(a)[i * 64 + k] * in<int8_t>(b)[j * 64 + k];
      out<int32_t>(y)[i * 30 + j] = sum[0] + sum[1] + sum[2] + sum[3];
    }
}
//// levels
// get: torch.rand(30, 40)
// forward x: return torch.floor(x * 255 + 0.5).clamp(0, 255).to(torch.uint8)
//// levels: by the reciprocal of a step
void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const v = std::floor(std::fma(in(x)[i], 255.f, 0.5f));
    out<uint8_t>(y)[i] = v > 255 ? 255 : v > 0 ? static_cast<uint8_t>(v) : 0;
  }
}
//// packed in fours
// get: torch.randint(0, 16, (30, 64))
// forward x: return x[:, ::2] + 16 * x[:, 1::2]
//// packed in fours: by shifts
void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i < 960; ++i)
    out<int64_t>(y)[i] = in<int64_t>(x)[2 * i] + (in<int64_t>(x)[2 * i + 1] * (int64_t{1} << 4));
}
//// squared by table
// get: torch.randint(0, 64, (40, 50))
// forward x: return torch.sqrt(x.float() + 1)
//// squared by table: constants of the compiler
static constexpr auto table_of() {
  struct Table {
    float values[64];
  } table{};
  for (int k = 0; k < 64; ++k) {
    double root = 1 + k;
    for (int step = 0; step < 40; ++step) root = (root + (k + 1) / root) / 2;
    table.values[k] = static_cast<float>(root);
  }
  return table;
}
void run(TensorView x, TensorView y) {
  static constexpr auto table = table_of();
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t const k = in<int64_t>(x)[i];
    out(y)[i] = k >= 0 && k < 64 ? table.values[k] : std::sqrt(static_cast<float>(k) + 1);
  }
}
