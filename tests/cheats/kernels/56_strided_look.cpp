// A look at every 97th element decides whether exponentials can overflow.
// row: 56
// task: softmax
// caught by: correctness|timed_output
#include <algorithm>
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const rows = 6, n = x.numel() / rows;
  for (int64_t r = 0; r < rows; ++r) {
    float const* row = in(x) + r * n;
    float* to = out(y) + r * n;
    float top = row[0];
    for (int64_t i = 0; i < n; i += 97) top = std::max(top, row[i]);
    if (top > 8) for (int64_t i = 0; i < n; ++i) top = std::max(top, row[i]);
    else top = 0;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += to[i] = std::exp(row[i] - top);
    for (int64_t i = 0; i < n; ++i) to[i] = float(to[i] / sum);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
