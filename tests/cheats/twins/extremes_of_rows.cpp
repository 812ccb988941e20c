// Extremes that start with no number, and exponentials of what is left below the largest.
// row: 54
// task: extremes
// passes
#include <algorithm>
#include <cmath>
#include <limits>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView high, TensorView low, TensorView lse) {
  int64_t const rows = high.numel(), n = x.numel() / rows;
  for (int64_t r = 0; r < rows; ++r) {
    float const* row = in(x) + r * n;
    float most = -std::numeric_limits<float>::infinity(), least = -most;
    bool lost = false;
    for (int64_t i = 0; i < n; ++i) {
      most = std::max(most, row[i]);
      least = std::min(least, row[i]);
      lost = lost || std::isnan(row[i]);
    }
    float const nan = std::numeric_limits<float>::quiet_NaN(), shift = std::isinf(most) ? 0 : most;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(double(row[i]) - shift);
    out(high)[r] = lost ? nan : most;
    out(low)[r] = lost ? nan : least;
    out(lse)[r] = float(shift + std::log(sum));
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
