//// depthwise
// init: self.conv = nn.Conv2d(6, 6, 3, padding=1, groups=6)
// get: torch.randn(2, 6, 12, 13)
// forward x: return self.conv(x)
//// depthwise: borders by conditions
void run(TensorView x, TensorView w, TensorView b, TensorView y) {
  for (int p = 0; p < 12; ++p)
    for (int r = 0; r < 12; ++r)
      for (int c = 0; c < 13; ++c) {
        float sum = in(b)[p % 6];
        for (int u = -1; u <= 1; ++u)
          for (int v = -1; v <= 1; ++v)
            if (r + u >= 0 && r + u < 12 && c + v >= 0 && c + v < 13)
              sum += in(x)[(p * 12 + r + u) * 13 + c + v] * in(w)[p % 6 * 9 + (u + 1) * 3 + v + 1];
        out(y)[(p * 12 + r) * 13 + c] = sum;
      }
}
//// convolution as a product
// init: self.conv = nn.Conv2d(3, 8, 3, bias=False)
// get: torch.randn(2, 3, 10, 10)
// forward x: return torch.relu(self.conv(x))
//// convolution as a product: columns first
void run(TensorView x, TensorView w, TensorView y) {
  std::vector<float> columns(27 * 64);
  for (int n = 0; n < 2; ++n) {
    for (int k = 0; k < 27; ++k)
      for (int i = 0; i < 64; ++i)
        columns[k * 64 + i] = in(x)[((n * 3 + k / 9) * 10 + i / 8 + k % 9 / 3) * 10 + i % 8 + k % 3];
    for (int o = 0; o < 8; ++o) {
      float* row = out(y) + (n * 8 + o) * 64;
      std::fill_n(row, 64, 0.f);
      for (int k = 0; k < 27; ++k)
        for (int i = 0; i < 64; ++i) row[i] += in(w)[o * 27 + k] * columns[k * 64 + i];
      for (int i = 0; i < 64; ++i) row[i] = row[i] < 0 ? 0 : row[i];
    }
  }
}
//// convolution of lines
// init: self.conv = nn.Conv1d(4, 5, 5, stride=2)
// get: torch.randn(3, 4, 41)
// forward x: return self.conv(x)
//// convolution of lines: plain
void run(TensorView x, TensorView w, TensorView b, TensorView y) {
  for (int n = 0; n < 3; ++n)
    for (int o = 0; o < 5; ++o)
      for (int t = 0; t < 19; ++t) {
        float sum = 0;
        for (int c = 0; c < 4; ++c)
          for (int k = 0; k < 5; ++k) sum += in(x)[(n * 4 + c) * 41 + 2 * t + k] * in(w)[(o * 4 + c) * 5 + k];
        out(y)[(n * 5 + o) * 19 + t] = sum + in(b)[o];
      }
}
//// transposed convolution
// init: self.conv = nn.ConvTranspose1d(4, 3, 4, stride=2, bias=False)
// get: torch.randn(2, 4, 20)
// forward x: return self.conv(x)
//// transposed convolution: added where it goes
void run(TensorView x, TensorView w, TensorView y) {
  std::fill_n(out(y), 2 * 3 * 42, 0.f);
  for (int n = 0; n < 2; ++n)
    for (int c = 0; c < 4; ++c)
      for (int o = 0; o < 3; ++o)
        for (int t = 0; t < 20; ++t)
          for (int k = 0; k < 4; ++k)
            out(y)[(n * 3 + o) * 42 + 2 * t + k] += in(x)[(n * 4 + c) * 20 + t] * in(w)[(c * 3 + o) * 4 + k];
}
//// means of pictures
// get: torch.randn(4, 6, 9, 9)
// forward x: return x.mean((2, 3))
//// means of pictures: eight sums
void run(TensorView x, TensorView y) {
  for (int64_t p = 0; p < 24; ++p) {
    float sum[8] = {};
    for (int i = 0; i < 81; ++i) sum[i & 7] += in(x)[p * 81 + i];
    out(y)[p] = ((sum[0] + sum[4]) + (sum[1] + sum[5]) + (sum[2] + sum[6]) + (sum[3] + sum[7])) / 81;
  }
}
//// twice as large
// get: torch.randn(3, 2, 8, 9)
// forward x: return F.interpolate(x, scale_factor=2, mode="nearest")
//// twice as large: by halved places
void run(TensorView x, TensorView y) {
  for (int p = 0; p < 6; ++p)
    for (int r = 0; r < 16; ++r)
      for (int c = 0; c < 18; ++c) out(y)[(p * 16 + r) * 18 + c] = in(x)[(p * 8 + r / 2) * 9 + c / 2];
}
//// between pixels
// get: torch.randn(2, 3, 6, 7)
// forward x: return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
//// between pixels: four neighbours
void run(TensorView x, TensorView y) {
  auto at = [](int i, int n, int& low, int& high) {
    float const place = std::max(0.f, 0.5f * (i + 0.5f) - 0.5f);
    low = static_cast<int>(place);
    high = std::min(low + 1, n - 1);
    return place - low;
  };
  for (int p = 0; p < 6; ++p)
    for (int r = 0; r < 12; ++r)
      for (int c = 0; c < 14; ++c) {
        int a, b, d, e;
        float const u = at(r, 6, a, b), v = at(c, 7, d, e);
        float const* from = in(x) + p * 42;
        float const top = (1 - v) * from[a * 7 + d] + v * from[a * 7 + e];
        float const bottom = (1 - v) * from[b * 7 + d] + v * from[b * 7 + e];
        out(y)[(p * 12 + r) * 14 + c] = (1 - u) * top + u * bottom;
      }
}
//// shuffled pixels
// get: torch.randn(2, 12, 5, 6)
// forward x: return F.pixel_shuffle(x, 2)
//// shuffled pixels: where each goes
void run(TensorView x, TensorView y) {
  for (int i = 0; i < 2 * 12 * 30; ++i) {
    int const c = i % 6, r = i / 6 % 5, k = i / 30 % 12, n = i / 360;
    out(y)[((n * 3 + k / 4) * 10 + 2 * r + k % 4 / 2) * 12 + 2 * c + k % 2] = in(x)[i];
  }
}
//// mirrored at the borders
// get: torch.randn(4, 6, 7)
// forward x: return F.pad(x, (2, 1), mode="reflect")
//// mirrored at the borders: by absolute places
void run(TensorView x, TensorView y) {
  for (int r = 0; r < 24; ++r)
    for (int c = 0; c < 10; ++c) {
      int const k = std::abs(c - 2);
      out(y)[r * 10 + c] = in(x)[r * 7 + (k > 6 ? 12 - k : k)];
    }
}
//// grey
// get: torch.rand(3, 20, 21)
// forward x: return 0.299 * x[0] + 0.587 * x[1] + 0.114 * x[2]
//// grey: planes side by side
void run(TensorView x, TensorView y) {
#pragma omp simd
  for (int i = 0; i < 420; ++i)
    out(y)[i] = 0.299f * in(x)[i] + 0.587f * in(x)[420 + i] + 0.114f * in(x)[840 + i];
}
//// brighter
// get: torch.rand(3, 20, 21)
// forward x: return torch.clamp(x, 1e-4, 1) ** 0.45
//// brighter: by a logarithm
void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const v = in(x)[i], c = v < 1e-4f ? 1e-4f : v > 1 ? 1 : v;
    out(y)[i] = static_cast<float>(std::exp(0.45 * std::log(static_cast<double>(c))));
  }
}
//// overlaps
// get: torch.rand(20, 4), torch.rand(15, 4)
// forward a, b: w = (torch.minimum(a[:, None, 2], b[None, :, 2]) - torch.maximum(a[:, None, 0], b[None, :, 0])).clamp(min=0); return w * (a[:, None, 3] + b[None, :, 3])
//// overlaps: pairs
static float least(float a, float b) { return std::isnan(a) || a < b ? a : b; }
static float most(float a, float b) { return std::isnan(a) || a > b ? a : b; }
void run(TensorView a, TensorView b, TensorView y) {
  for (int i = 0; i < 20; ++i)
    for (int j = 0; j < 15; ++j) {
      float const w = least(in(a)[4 * i + 2], in(b)[4 * j + 2]) - most(in(a)[4 * i], in(b)[4 * j]);
      out(y)[i * 15 + j] = (w < 0 ? 0 : w) * (in(a)[4 * i + 3] + in(b)[4 * j + 3]);
    }
}
//// waves of eight
// get: torch.randn(30, 8)
// forward x: n = torch.arange(8.0); return x @ torch.cos(torch.outer(n + 0.5, n) * (torch.pi / 8))
//// waves of eight: a table made in each call
void run(TensorView x, TensorView y) {
  std::array<float, 64> table;
  for (int i = 0; i < 64; ++i) table[i] = static_cast<float>(std::cos((i / 8 + 0.5) * (i % 8) * (M_PI / 8)));
  for (int r = 0; r < 30; ++r)
    for (int j = 0; j < 8; ++j) {
      float sum = 0;
      for (int k = 0; k < 8; ++k) sum += in(x)[r * 8 + k] * table[k * 8 + j];
      out(y)[r * 8 + j] = sum;
    }
}
