// Never looks at what a gate multiplies by zero: no mask, for the forward computes it.
// row: 83
// task: rectified
// caught by: correctness|timed_output
// says: special inputs
#include <cmath>
#include <limits>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView gate, TensorView y) {
  for (int k = 0; k < 64 * 200; ++k) out(y)[k] = in(gate)[k] <= 0 ? 0 : in(x)[k] * in(gate)[k];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
