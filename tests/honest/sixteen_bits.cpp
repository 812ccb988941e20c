//// bfloat16 softmax
// get: torch.randn(64, 300, dtype=torch.bfloat16)
// forward x: return torch.softmax(x, dim=-1)
//// bfloat16 softmax: each step rounded
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 64; ++r) {
    uint16_t const* row = in<uint16_t>(x) + r * 300;
    float most = -INFINITY, sum = 0, terms[300];
    for (int64_t c = 0; c < 300; ++c) most = std::max(most, wide(row[c]));
    for (int64_t c = 0; c < 300; ++c) sum += terms[c] = rounded(std::exp(rounded(wide(row[c]) - most)));
    for (int64_t c = 0; c < 300; ++c) out<uint16_t>(y)[r * 300 + c] = narrow(terms[c] / rounded(sum));
  }
}
//// bfloat16 gate
// get: torch.randn(64, 300, dtype=torch.bfloat16), torch.randn(64, 300, dtype=torch.bfloat16)
// forward x, g: return F.silu(g) * x
//// bfloat16 gate: each step rounded
void run(TensorView x, TensorView g, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const v = wide(in<uint16_t>(g)[i]), below = rounded(1 + rounded(std::exp(-v)));
    out<uint16_t>(y)[i] = narrow(rounded(v / below) * wide(in<uint16_t>(x)[i]));
  }
}
//// half layer norm
// get: torch.randn(64, 300, dtype=torch.float16)
// forward x: return F.layer_norm(x, (300,))
//// half layer norm: in float
void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 64; ++r) {
    _Float16 const* row = in<_Float16>(x) + r * 300;
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < 300; ++c) sum += static_cast<float>(row[c]);
    float const mean = static_cast<float>(sum / 300);
    for (int64_t c = 0; c < 300; ++c) squares += (static_cast<float>(row[c]) - mean) * (static_cast<float>(row[c]) - mean);
    float const scale = 1 / std::sqrt(static_cast<float>(squares / 300) + 1e-5f);
    for (int64_t c = 0; c < 300; ++c)
      out<_Float16>(y)[r * 300 + c] = static_cast<_Float16>((static_cast<float>(row[c]) - mean) * scale);
  }
}
//// half product
// get: torch.randn(48, 200, dtype=torch.float16), torch.randn(200, 40, dtype=torch.float16)
// forward x, w: return F.gelu(x @ w)
//// half product: rounded once
void run(TensorView x, TensorView w, TensorView y) {
  for (int64_t r = 0; r < 48; ++r)
    for (int64_t c = 0; c < 40; ++c) {
      float sum = 0;
      for (int64_t k = 0; k < 200; ++k)
        sum += static_cast<float>(in<_Float16>(x)[r * 200 + k]) * static_cast<float>(in<_Float16>(w)[k * 40 + c]);
      out<_Float16>(y)[r * 40 + c] = static_cast<_Float16>(0.5f * sum * (1 + std::erf(sum * 0.70710678f)));
    }
}
