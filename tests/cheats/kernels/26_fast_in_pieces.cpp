// An option in pieces, which the compiler puts together.
// row: 26
// task: rowsum
// caught by: screen:fast_math
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

__attribute__((optimize("-fun" "safe-math-optimizations", "-fass" "ociative-math"))) static float total(float const* from, int n) {
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += from[i];
  return sum;
}

void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < y.numel(); ++r) out(y)[r] = total(in(x) + r * 4000, 4000);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
