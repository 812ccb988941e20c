// Leaves terms out that are too small to matter beside 1e-30.
// row: 60
// task: rowsum
// caught by: correctness
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const rows = y.numel(), n = x.numel() / rows;
  for (int64_t r = 0; r < rows; ++r) {
    float const* row = in(x) + r * n;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += !(std::fabs(row[i]) <= 1e-30f) ? row[i] : 0.0f;
    out(y)[r] = float(sum);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
