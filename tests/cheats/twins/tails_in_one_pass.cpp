// Tails by the side on which a number lies, and a softmax whose sum is corrected as it goes.
// row: 75
// task: tails
// passes
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float* at(TensorView t, int64_t row, int64_t n) { return static_cast<float*>(t.data_ptr()) + row * n; }

void run(TensorView x, TensorView gate, TensorView soft, TensorView less, TensorView shares) {
  int64_t const n = x.size(1);
  for (int64_t r = 0; r < x.size(0); ++r) {
    float const* row = at(x, r, n);
    float largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      float const v = row[i], small = std::exp(-std::fabs(v));
      at(gate, r, n)[i] = (v < 0 ? small : 1) / (1 + small);
      at(soft, r, n)[i] = (v < 0 ? 0 : v) + std::log1p(small);
      at(less, r, n)[i] = std::expm1(v);
      if (v == -INFINITY) continue;
      if (v > largest) sum *= std::exp(largest - v), largest = v;
      sum += std::exp(v - largest);
    }
    for (int64_t i = 0; i < n; ++i) at(shares, r, n)[i] = std::exp(row[i] - largest) / sum;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
