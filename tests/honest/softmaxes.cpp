//// softmax
// get: torch.randn(20, 700)
// forward x: return torch.softmax(x, dim=1)
//// softmax: three passes
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 20; ++r) {
    float const* row = in(x) + r * 700;
    float* to = out(y) + r * 700;
    float const most = *std::max_element(row, row + 700);
    for (int i = 0; i < 700; ++i) to[i] = std::exp(row[i] - most);
    float const scale = 1 / lanes(700, [&](int64_t i) { return to[i]; });
    for (int i = 0; i < 700; ++i) to[i] *= scale;
  }
}
//// softmax: exp2
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 20; ++r) {
    float const* row = in(x) + r * 700;
    float* to = out(y) + r * 700;
    float const most = *std::max_element(row, row + 700);
    for (int i = 0; i < 700; ++i) to[i] = std::exp2((row[i] - most) * 1.44269504f);
    float const sum = lanes(700, [&](int64_t i) { return to[i]; });
    for (int i = 0; i < 700; ++i) to[i] /= sum;
  }
}
//// softmax: online in lanes
void run(TensorView x, TensorView y) {
#pragma omp parallel for
  for (int64_t r = 0; r < 20; ++r) {
    float const* row = in(x) + r * 700;
    float most[10], sum[10] = {};
    std::fill(most, most + 10, std::numeric_limits<float>::lowest());
    for (int i = 0; i < 700; ++i) {
      float& m = most[i % 10];
      if (row[i] > m) {
        sum[i % 10] *= std::exp(m - row[i]);
        m = row[i];
      }
      sum[i % 10] += std::exp(row[i] - m);
    }
    float const top = *std::max_element(most, most + 10);
    float all = 0;
    for (int k = 0; k < 10; ++k) all += sum[k] * std::exp(most[k] - top);
    for (int i = 0; i < 700; ++i) out(y)[r * 700 + i] = std::exp(row[i] - top) / all;
  }
}
//// log softmax
// get: torch.randn(20, 500)
// forward x: return F.log_softmax(x, dim=-1)
//// log softmax: a maximum, a sum
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 20; ++r) {
    float const* row = in(x) + r * 500;
    float const most = *std::max_element(row, row + 500);
    float const sum = std::log(lanes(500, [&](int64_t i) { return std::exp(row[i] - most); }));
    for (int i = 0; i < 500; ++i) out(y)[r * 500 + i] = row[i] - most - sum;
  }
}
//// masked softmax
// get: torch.randn(30, 64), torch.rand(30, 64) < 0.3
// forward x, hidden: return torch.softmax(x.masked_fill(hidden, -1e9), dim=1)
//// masked softmax: selected
void run(TensorView x, TensorView hidden, TensorView y) {
  for (int64_t r = 0; r < 30; ++r) {
    float* to = out(y) + r * 64;
    for (int i = 0; i < 64; ++i) to[i] = in<bool>(hidden)[r * 64 + i] ? -1e9f : in(x)[r * 64 + i];
    float const most = *std::max_element(to, to + 64);
    for (int i = 0; i < 64; ++i) to[i] = std::exp(to[i] - most);
    float const sum = lanes(64, [&](int64_t i) { return to[i]; });
    for (int i = 0; i < 64; ++i) to[i] /= sum;
  }
}
//// cross entropy
// get: torch.randn(50, 120), torch.randint(0, 120, (50,))
// forward x, label: return F.cross_entropy(x, label)
//// cross entropy: rows, then their mean
void run(TensorView x, TensorView label, TensorView y) {
  float total = 0;
  int counted = 0;
  for (int64_t r = 0; r < 50; ++r) {
    if (in<int64_t>(label)[r] == -100) continue;  // cross_entropy's ignore_index
    ++counted;
    float const* row = in(x) + r * 120;
    float const most = *std::max_element(row, row + 120);
    float const sum = lanes(120, [&](int64_t i) { return std::exp(row[i] - most); });
    total += std::log(sum) + most - row[in<int64_t>(label)[r]];
  }
  *out(y) = total / counted;
}
//// log of a sum
// get: torch.randn(40, 333)
// forward x: return torch.logsumexp(x, dim=1)
//// log of a sum: online in lanes
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 40; ++r) {
    float most[9], sum[9];
    std::fill(most, most + 9, -std::numeric_limits<float>::infinity());
    std::fill(sum, sum + 9, 0.f);
    for (int i = 0; i < 333; ++i) {
      float const v = in(x)[r * 333 + i];
      float& m = most[i % 9];
      if (v > m) {
        sum[i % 9] *= std::exp(m - v);
        m = v;
      }
      if (v > -std::numeric_limits<float>::infinity()) sum[i % 9] += std::exp(v - m);
      if (std::isnan(v)) sum[i % 9] = v;
    }
    float const top = *std::max_element(most, most + 9);
    float all = 0;
    for (int k = 0; k < 9; ++k) all += most[k] == top ? sum[k] : sum[k] * std::exp(most[k] - top);
    out(y)[r] = std::log(all) + top;
  }
}
//// attention
// get: torch.randn(2, 24, 16), torch.randn(2, 40, 16), torch.randn(2, 40, 16)
// forward q, k, v: return torch.softmax(q @ k.transpose(1, 2) * 0.25, dim=-1) @ v
//// attention: scores in a row
void run(TensorView q, TensorView k, TensorView v, TensorView y) {
  for (int64_t r = 0; r < 48; ++r) {
    float const *keys = in(k) + r / 24 * 640, *values = in(v) + r / 24 * 640, *query = in(q) + r * 16;
    float score[40];
    for (int j = 0; j < 40; ++j) score[j] = 0.25f * lanes(16, [&](int64_t i) { return query[i] * keys[j * 16 + i]; });
    float const most = *std::max_element(score, score + 40);
    for (float& s : score) s = std::exp(s - most);
    float const sum = lanes(40, [&](int64_t j) { return score[j]; });
    for (int i = 0; i < 16; ++i)
      out(y)[r * 16 + i] = lanes(40, [&](int64_t j) { return score[j] * values[j * 16 + i]; }) / sum;
  }
}
//// attention: online, in tiles of eight keys
void run(TensorView q, TensorView k, TensorView v, TensorView y) {
  for (int64_t r = 0; r < 48; ++r) {
    float const *keys = in(k) + r / 24 * 640, *values = in(v) + r / 24 * 640, *query = in(q) + r * 16;
    float most = -std::numeric_limits<float>::infinity(), sum = 0, acc[16] = {};
    for (int first = 0; first < 40; first += 8) {
      float score[8], top = most;
      for (int j = 0; j < 8; ++j) {
        float dot = 0;
        for (int i = 0; i < 16; ++i) dot += query[i] * keys[(first + j) * 16 + i];
        score[j] = dot * 0.25f;
        top = std::max(top, score[j]);
      }
      float const shrink = std::exp(most - top);
      most = top;
      sum *= shrink;
      for (float& a : acc) a *= shrink;
      for (int j = 0; j < 8; ++j) {
        float const p = std::exp(score[j] - most);
        sum += p;
        for (int i = 0; i < 16; ++i) acc[i] += p * values[(first + j) * 16 + i];
      }
    }
    for (int i = 0; i < 16; ++i) out(y)[r * 16 + i] = acc[i] / sum;
  }
}
