// Corrects as at the first step, always.
// row: 74
// task: step
// caught by: correctness
// says: wrong on
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView m, TensorView, TensorView y) {
  for (int i = 0; i < 30 * 40; ++i) out(y)[i] = in(m)[i] / 0.1f;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
