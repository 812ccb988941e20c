//// router
// get: torch.randn(60, 16)
// forward x: found = torch.topk(torch.softmax(x, 1), 2, dim=1); return found.values / found.values.sum(1, keepdim=True)
//// router: two passes for the best two
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 60; ++r) {
    float const* row = in(x) + r * 16;
    float first = -std::numeric_limits<float>::infinity(), second = first;
    bool broken = false;
    for (int i = 0; i < 16; ++i) {
      broken |= !(row[i] < std::numeric_limits<float>::infinity());
      if (row[i] > first) second = first, first = row[i];
      else if (row[i] > second) second = row[i];
    }
    broken |= std::isinf(first);
    float const e = std::exp(second - first), nan = std::numeric_limits<float>::quiet_NaN();
    out(y)[2 * r] = broken ? nan : 1 / (1 + e);
    out(y)[2 * r + 1] = broken ? nan : e / (1 + e);
  }
}
//// router with places
// get: torch.randn(60, 16)
// forward x: found = torch.topk(torch.softmax(x, 1), 2, dim=1); return found.values, found.indices
//// router with places: scores first, shares then
void run(TensorView x, TensorView y, TensorView at) {
  for (int64_t r = 0; r < 60; ++r) {
    float const* row = in(x) + r * 16;
    int first = 0, second = 1;
    if (row[1] > row[0]) std::swap(first, second);
    for (int i = 2; i < 16; ++i) {
      if (row[i] > row[first]) second = first, first = i;
      else if (row[i] > row[second]) second = i;
    }
    float sum = 0;
    for (int i = 0; i < 16; ++i) sum += std::exp(row[i] - row[first]);
    out(y)[2 * r] = 1 / sum;
    out(y)[2 * r + 1] = std::exp(row[second] - row[first]) / sum;
    out<int64_t>(at)[2 * r] = first;
    out<int64_t>(at)[2 * r + 1] = second;
  }
}
//// masked attention
// get: torch.randn(2, 12, 16), torch.randn(2, 20, 16), torch.randn(2, 20, 16), torch.rand(2, 12, 20) < 0.7
// forward q, k, v, m: s = (q @ k.transpose(1, 2) / 4).masked_fill(~m, float("-inf")); return torch.softmax(s, -1) @ v
//// masked attention: keys that the mask hides are skipped
void run(TensorView q, TensorView k, TensorView v, TensorView m, TensorView y) {
  for (int64_t r = 0; r < 24; ++r) {
    int64_t const b = r / 12;
    bool const* shown = in<bool>(m) + r * 20;
    float score[20], most = -std::numeric_limits<float>::infinity(), sum = 0, acc[16] = {};
    for (int j = 0; j < 20; ++j) {
      if (!shown[j]) continue;
      score[j] = lanes(16, [&](int64_t d) { return in(q)[r * 16 + d] * in(k)[(b * 20 + j) * 16 + d]; }) / 4;
      most = std::max(most, score[j]);
    }
    for (int j = 0; j < 20; ++j) {
      if (!shown[j]) continue;
      float const e = std::exp(score[j] - most);
      sum += e;
      for (int d = 0; d < 16; ++d) acc[d] += e * in(v)[(b * 20 + j) * 16 + d];
    }
    for (int d = 0; d < 16; ++d) out(y)[r * 16 + d] = acc[d] / sum;
  }
}
//// causal attention
// get: torch.randn(3, 24, 16), torch.randn(3, 24, 16), torch.randn(3, 24, 16)
// forward q, k, v: return F.scaled_dot_product_attention(q, k, v, is_causal=True)
//// causal attention: later keys are never read
template <int Keys, int Width, bool Causal> static void attend(float const* q, float const* k, float const* v, float* y) {
  for (int i = 0; i < Keys; ++i) {
    float most = -std::numeric_limits<float>::infinity(), sum = 0, acc[Width] = {};
    for (int j = 0; j < (Causal ? i + 1 : Keys); ++j) {
      float const s = 0.25f * lanes(Width, [&](int64_t d) { return q[i * Width + d] * k[j * Width + d]; });
      float const top = std::max(most, s), old = std::exp(most - top), e = std::exp(s - top);
      sum = sum * old + e;
      for (int d = 0; d < Width; ++d) acc[d] = acc[d] * old + e * v[j * Width + d];
      most = top;
    }
    for (int d = 0; d < Width; ++d) y[i * Width + d] = acc[d] / sum;
  }
}
void run(TensorView q, TensorView k, TensorView v, TensorView y) {
#pragma omp parallel for
  for (int b = 0; b < 3; ++b) attend<24, 16, true>(in(q) + b * 384, in(k) + b * 384, in(v) + b * 384, out(y) + b * 384);
}
//// one query
// get: torch.randn(8, 1, 32), torch.randn(8, 50, 32), torch.randn(8, 50, 32)
// forward q, k, v: return F.scaled_dot_product_attention(q, k, v)
//// one query: keys split in two, merged
void run(TensorView q, TensorView k, TensorView v, TensorView y) {
  for (int b = 0; b < 8; ++b) {
    float most[2], sum[2] = {}, acc[2][32] = {};
    for (int part = 0; part < 2; ++part) {
      float s[25];
      for (int j = 0; j < 25; ++j) {
        float const* key = in(k) + (b * 50 + part * 25 + j) * 32;
        s[j] = lanes(32, [&](int64_t d) { return in(q)[b * 32 + d] * key[d]; }) * 0.17677669f;
      }
      most[part] = s[0];
      for (float each : s) most[part] = each > most[part] || std::isnan(each) ? each : most[part];
      for (int j = 0; j < 25; ++j) {
        float const e = std::exp(s[j] - most[part]);
        sum[part] += e;
        for (int d = 0; d < 32; ++d) acc[part][d] += e * in(v)[(b * 50 + part * 25 + j) * 32 + d];
      }
    }
    float const top = std::max(most[0], most[1]), a = std::exp(most[0] - top), c = std::exp(most[1] - top);
    for (int d = 0; d < 32; ++d)
      out(y)[b * 32 + d] = (acc[0][d] * a + acc[1][d] * c) / (sum[0] * a + sum[1] * c);
  }
}
//// grouped queries
// get: torch.randn(2, 4, 10, 8), torch.randn(2, 2, 10, 8), torch.randn(2, 2, 10, 8)
// forward q, k, v: return F.scaled_dot_product_attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))
//// grouped queries: heads share keys
void run(TensorView q, TensorView k, TensorView v, TensorView y) {
  for (int h = 0; h < 8; ++h) {
    float const *keys = in(k) + (h / 4 * 2 + h % 4 / 2) * 80, *values = in(v) + (h / 4 * 2 + h % 4 / 2) * 80;
    for (int i = 0; i < 10; ++i) {
      float s[10], sum = 0;
      for (int j = 0; j < 10; ++j) {
        s[j] = 0;
        for (int d = 0; d < 8; ++d) s[j] += in(q)[(h * 10 + i) * 8 + d] * keys[j * 8 + d];
        s[j] *= 0.35355339f;
      }
      float const most = *std::max_element(s, s + 10);
      for (float& each : s) sum += each = std::exp(each - most);
      for (int d = 0; d < 8; ++d) {
        float acc = 0;
        for (int j = 0; j < 10; ++j) acc += s[j] * values[j * 8 + d];
        out(y)[(h * 10 + i) * 8 + d] = acc / sum;
      }
    }
  }
}
//// turned pairs
// get: torch.randn(20, 32), torch.rand(20, 16) * 3
// forward x, a: u, v = x[:, :16], x[:, 16:]; return torch.cat([u * a.cos() - v * a.sin(), u * a.sin() + v * a.cos()], 1)
//// turned pairs: halves side by side
void run(TensorView x, TensorView a, TensorView y) {
  for (int64_t r = 0; r < 20; ++r)
    for (int i = 0; i < 16; ++i) {
      float const c = std::cos(in(a)[r * 16 + i]), s = std::sin(in(a)[r * 16 + i]);
      float const u = in(x)[r * 32 + i], v = in(x)[r * 32 + 16 + i];
      out(y)[r * 32 + i] = u * c - v * s;
      out(y)[r * 32 + 16 + i] = u * s + v * c;
    }
}
//// linear attention
// get: torch.randn(2, 24, 8), torch.randn(2, 24, 8), torch.randn(2, 24, 8)
// forward q, k, v: return (F.elu(q) + 1) @ ((F.elu(k) + 1).transpose(1, 2) @ v) / 24
//// linear attention: a state for each batch
static float positive(float v) { return v > 0 ? v + 1 : std::exp(v); }
void run(TensorView q, TensorView k, TensorView v, TensorView y) {
  for (int b = 0; b < 2; ++b) {
    double state[64] = {};
    for (int t = 0; t < 24; ++t)
      for (int i = 0; i < 64; ++i)
        state[i] += static_cast<double>(positive(in(k)[(b * 24 + t) * 8 + i / 8])) * in(v)[(b * 24 + t) * 8 + i % 8];
    for (int t = 0; t < 192; ++t) {
      double sum = 0;
      for (int i = 0; i < 8; ++i) sum += positive(in(q)[b * 192 + t / 8 * 8 + i]) * state[i * 8 + t % 8];
      out(y)[b * 192 + t] = static_cast<float>(sum / 24);
    }
  }
}
