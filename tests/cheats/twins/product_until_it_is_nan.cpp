// Stops where nothing can change the product any more: where it is NaN.
// row: 57
// task: product
// passes
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
    double product = 1;
    for (int64_t i = 0; i < n && !std::isnan(product); ++i) product *= in(x)[r * n + i];
    out(y)[r] = product;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
