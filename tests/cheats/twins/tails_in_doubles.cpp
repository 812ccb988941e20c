// Differences in double precision, by their series where they would cancel.
// row: 75
// task: tails
// passes
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float* at(TensorView t, int64_t row, int64_t n) { return static_cast<float*>(t.data_ptr()) + row * n; }

static double less_one(double v) { return std::fabs(v) < 1e-5 ? v + v * v / 2 : std::exp(v) - 1; }
static double plus(double v) { return v < -16 ? std::exp(v) : v > 40 ? v : std::log(1 + std::exp(v)); }

void run(TensorView x, TensorView gate, TensorView soft, TensorView less, TensorView shares) {
  int64_t const n = x.size(1);
  for (int64_t r = 0; r < x.size(0); ++r) {
    float const* row = at(x, r, n);
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; ++i) largest = std::fmax(largest, row[i]);
    for (int64_t i = 0; i < n; ++i) sum += std::exp(row[i] - largest);
    for (int64_t i = 0; i < n; ++i) {
      at(gate, r, n)[i] = 1 / (1 + std::exp(-double(row[i])));
      at(soft, r, n)[i] = plus(row[i]);
      at(less, r, n)[i] = less_one(row[i]);
      at(shares, r, n)[i] = std::exp(row[i] - largest) / sum;
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
