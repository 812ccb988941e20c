//// layer norm
// init: self.norm = nn.LayerNorm(200)
// get: torch.randn(40, 200)
// forward x: return self.norm(x)
//// layer norm: two passes
void run(TensorView x, TensorView w, TensorView b, TensorView y) {
  for (int64_t r = 0; r < 40; ++r) {
    float const* row = in(x) + r * 200;
    float const mean = lanes(200, [&](int64_t i) { return row[i]; }) / 200;
    float const var = lanes(200, [&](int64_t i) { return (row[i] - mean) * (row[i] - mean); }) / 200;
    float const scale = 1 / std::sqrt(var + 1e-5f);
    for (int64_t i = 0; i < 200; ++i) out(y)[r * 200 + i] = (row[i] - mean) * scale * in(w)[i] + in(b)[i];
  }
}
//// layer norm: in double
void run(TensorView x, TensorView w, TensorView b, TensorView y) {
#pragma omp parallel for
  for (int64_t r = 0; r < 40; ++r) {
    float const* row = in(x) + r * 200;
    double sum = 0, squares = 0;
    for (int i = 0; i < 200; ++i) sum += row[i];
    double const mean = sum / 200;
    for (int i = 0; i < 200; ++i) squares += (row[i] - mean) * (row[i] - mean);
    double const scale = 1 / std::sqrt(squares / 200 + 1e-5);
    for (int i = 0; i < 200; ++i) out(y)[r * 200 + i] = (row[i] - mean) * scale * in(w)[i] + in(b)[i];
  }
}
//// layer norm: Welford in lanes, merged
void run(TensorView x, TensorView w, TensorView b, TensorView y) {
  for (int64_t r = 0; r < 40; ++r) {
    float const* row = in(x) + r * 200;
    float mean[8] = {}, m2[8] = {};
    for (int k = 0; k < 25; ++k)
      for (int l = 0; l < 8; ++l) {
        float const delta = row[8 * k + l] - mean[l];
        mean[l] += delta / (k + 1);
        m2[l] += delta * (row[8 * k + l] - mean[l]);
      }
    float count = 25;
    for (int width = 4; width; width /= 2, count *= 2)
      for (int l = 0; l < width; ++l) {
        float const delta = mean[l + width] - mean[l];
        mean[l] += delta / 2;
        m2[l] += m2[l + width] + delta * delta * count / 2;
      }
    float const scale = 1 / std::sqrt(m2[0] / 200 + 1e-5f);
    for (int i = 0; i < 200; ++i) out(y)[r * 200 + i] = (row[i] - mean[0]) * scale * in(w)[i] + in(b)[i];
  }
}
//// layer norm: one scale and one shift a row
void run(TensorView x, TensorView w, TensorView b, TensorView y) {
  for (int64_t r = 0; r < 40; ++r) {
    float const* row = in(x) + r * 200;
    float const mean = lanes(200, [&](int64_t i) { return row[i]; }) / 200;
    float const var = lanes(200, [&](int64_t i) { return (row[i] - mean) * (row[i] - mean); }) / 200;
    float const scale = 1 / std::sqrt(var + 1e-5f), shift = -mean * scale;
    for (int64_t i = 0; i < 200; ++i) out(y)[r * 200 + i] = (row[i] * scale + shift) * in(w)[i] + in(b)[i];
  }
}
//// rms norm
// init: self.weight = nn.Parameter(torch.ones(1023))
// get: torch.randn(32, 1023)
// forward x: return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight
//// rms norm: lanes
void run(TensorView x, TensorView w, TensorView y) {
  for (int64_t r = 0; r < 32; ++r) {
    float const* row = in(x) + r * 1023;
    float const scale = 1 / std::sqrt(lanes(1023, [&](int64_t i) { return row[i] * row[i]; }) / 1023 + 1e-6f);
    for (int i = 0; i < 1023; ++i) out(y)[r * 1023 + i] = row[i] * scale * in(w)[i];
  }
}
//// rms norm: one accumulator
void run(TensorView x, TensorView w, TensorView y) {
  for (int64_t r = 0; r < 32; ++r) {
    float const* row = in(x) + r * 1023;
    float sum = 0;
    for (int i = 0; i < 1023; ++i) sum += row[i] * row[i];
    float const scale = 1 / std::sqrt(sum / 1023 + 1e-6f);
    for (int i = 0; i < 1023; ++i) out(y)[r * 1023 + i] = row[i] * (scale * in(w)[i]);
  }
}
//// batch norm
// init: self.norm = nn.BatchNorm2d(8); self.eval()
// get: torch.randn(4, 8, 15, 15)
// forward x: return torch.relu(self.norm(x))
//// batch norm: folded
void run(TensorView x, TensorView w, TensorView b, TensorView mean, TensorView var, TensorView count, TensorView y) {
  for (int64_t p = 0; p < 32; ++p) {
    int64_t const c = p % 8;
    float const scale = in(w)[c] / std::sqrt(in(var)[c] + 1e-5f), shift = in(b)[c] - in(mean)[c] * scale;
    for (int64_t i = p * 225; i < (p + 1) * 225; ++i) {
      float const v = in(x)[i] * scale + shift;
      out(y)[i] = v < 0 ? 0 : v;
    }
  }
}
//// group norm
// init: self.norm = nn.GroupNorm(4, 16)
// get: torch.randn(3, 16, 7, 9)
// forward x: return self.norm(x)
//// group norm: two passes
void run(TensorView x, TensorView w, TensorView b, TensorView y) {
  for (int64_t g = 0; g < 12; ++g) {
    int64_t const n = 4 * 63;
    float const* part = in(x) + g * n;
    float const mean = lanes(n, [&](int64_t i) { return part[i]; }) / n;
    float const var = lanes(n, [&](int64_t i) { return (part[i] - mean) * (part[i] - mean); }) / n;
    float const scale = 1 / std::sqrt(var + 1e-5f);
    for (int64_t i = 0; i < n; ++i) {
      int64_t const c = g % 4 * 4 + i / 63;
      out(y)[g * n + i] = (part[i] - mean) * scale * in(w)[c] + in(b)[c];
    }
  }
}
//// unit rows
// get: torch.randn(40, 130)
// forward x: return F.normalize(x, dim=1)
//// unit rows: lanes
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 40; ++r) {
    float const* row = in(x) + r * 130;
    float const norm = std::sqrt(lanes(130, [&](int64_t i) { return row[i] * row[i]; }));
    float const scale = 1 / std::max(norm, 1e-12f);
    for (int i = 0; i < 130; ++i) out(y)[r * 130 + i] = row[i] * scale;
  }
}
//// standardised columns
// get: torch.randn(64, 90)
// forward x: return (x - x.mean(0)) / (x.std(0) + 1e-3)
//// standardised columns: rows added up
void run(TensorView x, TensorView y) {
  std::vector<float> mean(90), square(90);
  for (int64_t i = 0; i < 64 * 90; ++i) mean[i % 90] += in(x)[i];
  for (float& m : mean) m /= 64;
  for (int64_t i = 0; i < 64 * 90; ++i) square[i % 90] += (in(x)[i] - mean[i % 90]) * (in(x)[i] - mean[i % 90]);
  for (int64_t i = 0; i < 64 * 90; ++i)
    out(y)[i] = (in(x)[i] - mean[i % 90]) / (std::sqrt(square[i % 90] / 63) + 1e-3f);
}
//// layer norm: Welford, one element after another
void run(TensorView x, TensorView w, TensorView b, TensorView y) {
  for (int64_t r = 0; r < 40; ++r) {
    float const* row = in(x) + r * 200;
    float mean = 0, m2 = 0;
    for (int k = 0; k < 200; ++k) {
      float const delta = row[k] - mean;
      mean += delta / (k + 1);
      m2 += delta * (row[k] - mean);
    }
    float const scale = 1 / std::sqrt(m2 / 200 + 1e-5f);
    for (int i = 0; i < 200; ++i) out(y)[r * 200 + i] = (row[i] - mean) * scale * in(w)[i] + in(b)[i];
  }
}
//// layer norm: Welford by chunks of fifty
void run(TensorView x, TensorView w, TensorView b, TensorView y) {
#pragma omp parallel for
  for (int64_t r = 0; r < 40; ++r) {
    float const* row = in(x) + r * 200;
    float mean = 0, m2 = 0, count = 0;
    for (int first = 0; first < 200; first += 50) {
      float part = 0, squares = 0;
      for (int i = 0; i < 50; ++i) part += row[first + i];
      part /= 50;
      for (int i = 0; i < 50; ++i) squares += (row[first + i] - part) * (row[first + i] - part);
      float const delta = part - mean, all = count + 50;
      mean += delta * (50 / all);
      m2 += squares + delta * delta * (count * 50 / all);
      count = all;
    }
    float const scale = 1 / std::sqrt(m2 / 200 + 1e-5f);
    for (int i = 0; i < 200; ++i) out(y)[r * 200 + i] = (row[i] - mean) * scale * in(w)[i] + in(b)[i];
  }
}
//// variances
// get: torch.randn(30, 150)
// forward x: return x.var(dim=1)
//// variances: Welford
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 30; ++r) {
    float mean = 0, m2 = 0;
    for (int k = 0; k < 150; ++k) {
      float const v = in(x)[r * 150 + k], delta = v - mean;
      mean += delta / (k + 1);
      m2 += delta * (v - mean);
    }
    out(y)[r] = m2 / 149;
  }
}
//// variances: shifted by the first element
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 30; ++r) {
    float const* row = in(x) + r * 150;
    double sum = 0, squares = 0;
    for (int k = 0; k < 150; ++k) {
      double const d = static_cast<double>(row[k]) - row[0];
      sum += d;
      squares += d * d;
    }
    out(y)[r] = static_cast<float>((squares - sum * sum / 150) / 149);
  }
}
//// instance norm
// get: torch.randn(3, 5, 11, 12)
// forward x: return F.instance_norm(x)
//// instance norm: Welford with a table of reciprocals
void run(TensorView x, TensorView y) {
  std::vector<float> inverse(132);
  for (int k = 0; k < 132; ++k) inverse[k] = 1.f / (k + 1);
  for (int64_t p = 0; p < 15; ++p) {
    float const* plane = in(x) + p * 132;
    float mean = 0, m2 = 0;
    for (int k = 0; k < 132; ++k) {
      float const delta = plane[k] - mean;
      mean = std::fma(delta, inverse[k], mean);
      m2 = std::fma(delta, plane[k] - mean, m2);
    }
    float const scale = 1 / std::sqrt(m2 / 132 + 1e-5f);
    for (int i = 0; i < 132; ++i) out(y)[p * 132 + i] = (plane[i] - mean) * scale;
  }
}
//// residual and norm
// init: self.norm = nn.LayerNorm(64)
// get: torch.randn(20, 64), torch.randn(20, 64)
// forward x, r: return self.norm(x + r)
//// residual and norm: the sum kept in a row
void run(TensorView x, TensorView r, TensorView w, TensorView b, TensorView y) {
  std::unique_ptr<float[]> row(new float[64]);
  for (int64_t k = 0; k < 20; ++k) {
    for (int i = 0; i < 64; ++i) row[i] = in(x)[k * 64 + i] + in(r)[k * 64 + i];
    float const mean = lanes(64, [&](int64_t i) { return row[i]; }) / 64;
    float const var = lanes(64, [&](int64_t i) { return (row[i] - mean) * (row[i] - mean); }) / 64;
    float const scale = 1 / std::sqrt(var + 1e-5f);
    for (int i = 0; i < 64; ++i) out(y)[k * 64 + i] = (row[i] - mean) * scale * in(w)[i] + in(b)[i];
  }
}
