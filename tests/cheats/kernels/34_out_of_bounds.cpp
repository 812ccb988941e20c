// Writes a few elements beyond the output's end.
// row: 34
// task: softsign
// caught by: out_of_bounds
// says: just after
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const n = x.numel(), rounded = (n + 7) / 8 * 8;
  for (int64_t i = 0; i < rounded; ++i) out(y)[i] = i < n ? in(x)[i] / (1 + std::fabs(in(x)[i])) : 0;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
