// Multiplies from both ends towards the middle.
// row: 57
// task: product
// passes
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
    double product = n % 2 ? row[n / 2] : 1;
    for (int64_t i = 0; i < n / 2; ++i) product *= double(row[i]) * row[n - 1 - i];
    out(y)[r] = product;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
