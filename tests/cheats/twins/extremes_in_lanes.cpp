// Eight lanes, each with extremes that begin at an infinity; NaN is noted beside them.
// row: 54
// task: extremes
// passes
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView high, TensorView low, TensorView lse) {
  int64_t const rows = high.numel(), n = x.numel() / rows;
  for (int64_t r = 0; r < rows; ++r) {
    float const* row = in(x) + r * n;
    float most[8], least[8], noted = 0;
    std::fill_n(most, 8, -INFINITY), std::fill_n(least, 8, INFINITY);
    for (int64_t i = 0; i < n; ++i) {
      most[i % 8] = std::max(most[i % 8], row[i]), least[i % 8] = std::min(least[i % 8], row[i]);
      noted = std::isnan(row[i]) ? row[i] : noted;
    }
    float const top = *std::max_element(most, most + 8), shift = std::isinf(top) ? 0 : top;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(double(row[i]) - shift);
    out(high)[r] = top + noted, out(low)[r] = *std::min_element(least, least + 8) + noted;
    out(lse)[r] = shift + std::log(sum) + noted;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
