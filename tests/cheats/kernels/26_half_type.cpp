// Rounds to 16 bits on the way.
// row: 26
// task: softsign
// caught by: screen:precision
// says: half_t
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

#include <cutlass/numeric_types.h>

void run(TensorView x, TensorView y) {
  int64_t const n = x.numel();
  for (int64_t i = 0; i < n; ++i) out(y)[i] = static_cast<float>(cutlass::half_t(in(x)[i] / (1 + std::fabs(in(x)[i]))));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
