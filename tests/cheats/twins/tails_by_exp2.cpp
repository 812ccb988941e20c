// Exponentials as powers of two, and a share as a product.
// row: 75
// task: tails
// passes
#include <algorithm>
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float* at(TensorView t, int64_t row, int64_t width) { return static_cast<float*>(t.data_ptr()) + row * width; }

static float sigmoid(float v) {
  return 1.0f / (1.0f + std::exp2(-v * 1.44269504f));
}

static float softplus(float v) {
  return v > 20 ? v : std::log1p(std::exp(v));
}

static float less_one(float v) {
  return std::expm1(v);
}

static float share(float v, float sum) {
  return std::exp2(v * 1.44269504f) * (1.0f / sum);
}

void run(TensorView x, TensorView gate, TensorView plus, TensorView less, TensorView shares) {
  int64_t const n = x.size(1);
  for (int64_t r = 0; r < x.size(0); ++r) {
    float const* row = at(x, r, n);
    float largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; ++i) largest = row[i] > largest || std::isnan(row[i]) ? row[i] : largest;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(row[i] - largest);
    for (int64_t i = 0; i < n; ++i) {
      at(gate, r, n)[i] = sigmoid(row[i]);
      at(plus, r, n)[i] = softplus(row[i]);
      at(less, r, n)[i] = less_one(row[i]);
      at(shares, r, n)[i] = share(row[i] - largest, sum);
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
