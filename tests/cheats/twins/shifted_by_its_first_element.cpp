// One pass in double precision, over what is left of each row's own first element.
// row: 55, 65
// task: spread
// passes
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const rows = 40, n = x.numel() / rows;
  for (int64_t r = 0; r < rows; ++r) {
    float const* row = in(x) + r * n;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; ++i) {
      double const d = double(row[i]) - row[0];
      sum += d, squares += d * d;
    }
    double const mean = sum / n, scale = 1 / std::sqrt(std::fmax(squares / n - mean * mean, 0) + 1e-5);
    for (int64_t i = 0; i < n; ++i) out(y)[r * n + i] = (double(row[i]) - row[0] - mean) * scale;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
