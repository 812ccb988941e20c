// Multiplies mantissas and adds exponents.
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
    int64_t exponent = 0;
    for (int64_t i = 0; i < n; ++i) {
      int more = 0;
      product = std::frexp(product * in(x)[r * n + i], &more);
      exponent += std::isfinite(product) ? more : 0;
    }
    out(y)[r] = std::ldexp(product, int(exponent));
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
