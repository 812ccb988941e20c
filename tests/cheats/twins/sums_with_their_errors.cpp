// Adds what each addition loses, unless the sum is not finite.
// row: 59
// task: rowsum
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
    float sum = 0, lost = 0;
    for (int64_t i = 0; i < n; ++i) {
      float const v = in(x)[r * n + i], next = sum + v, part = next - sum;
      lost += (sum - (next - part)) + (v - part);
      sum = next;
    }
    out(y)[r] = std::isfinite(lost) ? sum + lost : sum;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
