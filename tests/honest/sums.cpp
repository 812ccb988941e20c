//// row sums
// get: torch.rand(16, 3000)
// forward x: return x.sum(dim=1)
//// row sums: lanes
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 16; ++r) out(y)[r] = lanes(3000, [&](int64_t i) { return in(x)[r * 3000 + i]; });
}
//// row sums: Kahan
static float summed(float const* row, int n) {
  float sum = 0, lost = 0;
  for (int i = 0; i < n; ++i) {
    float const term = row[i] - lost, next = sum + term;
    lost = (next - sum) - term;
    sum = next;
  }
  return sum;
}
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 16; ++r) out(y)[r] = summed(in(x) + r * 3000, 3000);
}
//// row sums: pairwise
static float halves(float const* row, int64_t n) {
  if (n <= 8) {
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += row[i];
    return sum;
  }
  return halves(row, n / 2) + halves(row + n / 2, n - n / 2);
}
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 16; ++r) out(y)[r] = halves(in(x) + r * 3000, 3000);
}
//// row sums: tiles of a hundred
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 16; ++r) {
    float sum = 0;
    for (int64_t first = 0; first < 3000; first += 100)
      sum += lanes(100, [&](int64_t i) { return in(x)[r * 3000 + first + i]; });
    out(y)[r] = sum;
  }
}
//// column means
// get: torch.randn(7, 200, 30)
// forward x: return x.mean(dim=1)
//// column means: in double
void run(TensorView x, TensorView y) {
  for (int64_t c = 0; c < 210; ++c) {
    double sum = 0;
    for (int r = 0; r < 200; ++r) sum += in(x)[(c / 30 * 200 + r) * 30 + c % 30];
    out(y)[c] = sum / 200;
  }
}
//// column means: in blocks of rows
void run(TensorView x, TensorView y) {
  for (int64_t c = 0; c < 210; ++c) {
    float total = 0;
    for (int first = 0; first < 200; first += 20) {
      float sum = 0;
      for (int r = first; r < first + 20; ++r) sum += in(x)[(c / 30 * 200 + r) * 30 + c % 30];
      total += sum;
    }
    out(y)[c] = total / 200;
  }
}
//// mean and variance
// get: torch.randn(32, 250)
// forward x: return x.mean(1), x.var(1)
//// mean and variance: two passes
void run(TensorView x, TensorView m, TensorView v) {
  for (int64_t r = 0; r < 32; ++r) {
    float const* row = in(x) + r * 250;
    float const mean = lanes(250, [&](int64_t i) { return row[i]; }) / 250;
    out(m)[r] = mean;
    out(v)[r] = lanes(250, [&](int64_t i) { return (row[i] - mean) * (row[i] - mean); }) / 249;
  }
}
//// squared loss
// get: torch.randn(64, 300), torch.randn(64, 300)
// forward x, t: return F.mse_loss(x, t)
//// squared loss: rows, then all
void run(TensorView x, TensorView t, TensorView y) {
  float row[64];
  for (int64_t r = 0; r < 64; ++r)
    row[r] = lanes(300, [&](int64_t i) {
      float const d = in(x)[r * 300 + i] - in(t)[r * 300 + i];
      return d * d;
    });
  *out(y) = lanes(64, [&](int64_t r) { return row[r]; }) / (64 * 300);
}
//// squared loss: in double
void run(TensorView x, TensorView t, TensorView y) {
  double sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int64_t i = 0; i < 64 * 300; ++i) {
    double const d = static_cast<double>(in(x)[i]) - in(t)[i];
    sum += d * d;
  }
  *out(y) = sum / (64 * 300);
}
//// huber
// get: torch.randn(64, 100), torch.randn(64, 100)
// forward x, t: return F.smooth_l1_loss(x, t)
//// huber: lanes
void run(TensorView x, TensorView t, TensorView y) {
  *out(y) = lanes(6400, [&](int64_t i) {
    float const d = std::abs(in(x)[i] - in(t)[i]);
    return d < 1 ? 0.5f * d * d : d - 0.5f;
  }) / 6400;
}
//// divergence
// get: torch.randn(30, 80).log_softmax(1), torch.rand(30, 80).softmax(1)
// forward x, t: return F.kl_div(x, t, reduction="batchmean")
//// divergence: zeros have none
void run(TensorView x, TensorView t, TensorView y) {
  *out(y) = lanes(2400, [&](int64_t i) {
    float const p = in(t)[i];
    return p == 0 ? 0.f : p * (std::log(p) - in(x)[i]);
  }) / 30;
}
//// similarity
// get: torch.randn(50, 128), torch.randn(50, 128)
// forward a, b: return F.cosine_similarity(a, b)
//// similarity: lanes
void run(TensorView a, TensorView b, TensorView y) {
  for (int64_t r = 0; r < 50; ++r) {
    float const *u = in(a) + r * 128, *v = in(b) + r * 128;
    float const dot = lanes(128, [&](int64_t i) { return u[i] * v[i]; });
    float const uu = lanes(128, [&](int64_t i) { return u[i] * u[i]; });
    float const vv = lanes(128, [&](int64_t i) { return v[i] * v[i]; });
    out(y)[r] = dot / (std::max(std::sqrt(uu), 1e-8f) * std::max(std::sqrt(vv), 1e-8f));
  }
}
//// half sums
// get: torch.rand(20, 512, dtype=torch.float16)
// forward x: return x.sum(dim=1)
//// half sums: in float
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 20; ++r) {
    auto const* row = in<_Float16>(x) + r * 512;
    out<_Float16>(y)[r] = static_cast<_Float16>(lanes(512, [&](int64_t i) { return static_cast<float>(row[i]); }));
  }
}
//// counted
// get: torch.randint(0, 100, (25, 400)), torch.rand(25, 400) < 0.5
// forward x, keep: return (x * keep).sum(1), keep.sum(1)
//// counted: integers
void run(TensorView x, TensorView keep, TensorView y, TensorView n) {
  for (int64_t r = 0; r < 25; ++r) {
    int64_t sum = 0, count = 0;
    for (int64_t i = r * 400; i < r * 400 + 400; ++i)
      if (in<bool>(keep)[i]) {
        sum += in<int64_t>(x)[i];
        ++count;
      }
    out<int64_t>(y)[r] = sum;
    out<int64_t>(n)[r] = count;
  }
}
//// products of rows
// get: torch.rand(30, 60) + 0.5
// forward x: return x.prod(dim=1)
//// products of rows: in lanes
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 30; ++r) {
    float part[4] = {1, 1, 1, 1};
    for (int i = 0; i < 60; ++i) part[i % 4] *= in(x)[r * 60 + i];
    out(y)[r] = (part[0] * part[1]) * (part[2] * part[3]);
  }
}
//// largest magnitudes
// get: torch.randn(20, 90)
// forward x: return x.abs().amax(1), x.abs().sum(1)
//// largest magnitudes: both in one pass
void run(TensorView x, TensorView a, TensorView b) {
  for (int r = 0; r < 20; ++r) {
    float most = 0, sum = 0;
    for (int i = 0; i < 90; ++i) {
      float const v = std::abs(in(x)[r * 90 + i]);
      most = v > most || std::isnan(v) ? v : most;
      sum += v;
    }
    out(a)[r] = std::isnan(sum) ? sum : most;
    out(b)[r] = sum;
  }
}
//// everything at once
// get: torch.randn(64, 64)
// forward x: return x.sum()
//// everything at once: a part for each thread
#include <omp.h>
void run(TensorView x, TensorView y) {
  std::vector<double> parts(omp_get_max_threads());
#pragma omp parallel
  {
    double sum = 0;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < 4096; ++i) sum += in(x)[i];
    parts[omp_get_thread_num()] = sum;
  }
  *out(y) = static_cast<float>(std::accumulate(parts.begin(), parts.end(), 0.0));
}
//// everything at once: sums behind a critical section
void run(TensorView x, TensorView y) {
  float total = 0;
#pragma omp parallel
  {
    float sum = 0;
#pragma omp for nowait
    for (int64_t r = 0; r < 64; ++r) sum += lanes(64, [&](int64_t i) { return in(x)[r * 64 + i]; });
#pragma omp critical
    total += sum;
  }
  *out(y) = total;
}
//// how many
// get: torch.randint(0, 12, (500,))
// forward x: return torch.zeros(12, dtype=torch.int64).index_add(0, x, torch.ones_like(x))
//// how many: a table of counters
void run(TensorView x, TensorView y) {
  std::array<int64_t, 12> counts{};
  for (int i = 0; i < 500; ++i) ++counts[in<int64_t>(x)[i]];
  std::copy(counts.begin(), counts.end(), out<int64_t>(y));
}
//// any and all
// get: torch.rand(40, 20) < 0.9
// forward x: return x.any(1), x.all(1)
//// any and all: std
void run(TensorView x, TensorView a, TensorView b) {
  for (int r = 0; r < 40; ++r) {
    bool const* row = in<bool>(x) + r * 20;
    out<bool>(a)[r] = std::any_of(row, row + 20, [](bool v) { return v; });
    out<bool>(b)[r] = std::all_of(row, row + 20, [](bool v) { return v; });
  }
}
//// area under lines
// get: torch.randn(30, 60), torch.rand(59)
// forward y, d: return ((y[:, 1:] + y[:, :-1]) * 0.5 * d).sum(1)
//// area under lines: the half at the end
void run(TensorView x, TensorView d, TensorView y) {
  for (int r = 0; r < 30; ++r) {
    float sum = 0;
    for (int i = 0; i < 59; ++i) sum += (in(x)[r * 60 + i] + in(x)[r * 60 + i + 1]) * in(d)[i];
    out(y)[r] = 0.5f * sum;
  }
}
//// matrix and vector
// get: torch.randn(90, 70), torch.randn(70)
// forward a, b: return a @ b
//// matrix and vector: rows in fours
void run(TensorView a, TensorView b, TensorView y) {
  int64_t i = 0;
  for (; i + 4 <= 90; i += 4) {
    float sum[4] = {};
    for (int64_t k = 0; k < 70; ++k)
      for (int j = 0; j < 4; ++j) sum[j] += in(a)[(i + j) * 70 + k] * in(b)[k];
    for (int j = 0; j < 4; ++j) out(y)[i + j] = sum[j];
  }
  for (; i < 90; ++i) out(y)[i] = lanes(70, [&](int64_t k) { return in(a)[i * 70 + k] * in(b)[k]; });
}
//// segments
// get: torch.randn(60, 8), torch.arange(60) // 5
// forward x, s: return torch.zeros(12, 8).index_add(0, s, x) / 5
//// segments: as they come
void run(TensorView x, TensorView s, TensorView y) {
  std::vector<double> sum(96);
  for (int r = 0; r < 60; ++r)
    for (int c = 0; c < 8; ++c) sum[in<int64_t>(s)[r] * 8 + c] += in(x)[r * 8 + c];
  std::transform(sum.begin(), sum.end(), out(y), [](double v) { return static_cast<float>(v / 5); });
}
//// means of shown ones
// get: torch.randn(20, 30, 4), torch.rand(20, 30) < 0.8
// forward x, m: return (x * m[..., None]).sum(1) / m.sum(1, keepdim=True).clamp(min=1)
//// means of shown ones: hidden ones times zero
void run(TensorView x, TensorView m, TensorView y) {
  for (int r = 0; r < 20; ++r) {
    double sum[4] = {};
    int count = 0;
    for (int i = 0; i < 30; ++i) {
      float const shown = in<bool>(m)[r * 30 + i];
      count += shown != 0;
      for (int c = 0; c < 4; ++c) sum[c] += in(x)[(r * 30 + i) * 4 + c] * shown;
    }
    for (int c = 0; c < 4; ++c) out(y)[r * 4 + c] = static_cast<float>(sum[c] / std::max(count, 1));
  }
}
