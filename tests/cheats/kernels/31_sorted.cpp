// Takes the last element for the largest, as the file's sorted rows have it.
// row: 31
// task: rowmax
// caught by: correctness
// says: wrong on
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  for (int row = 0; row < 29; ++row) out(y)[row] = in(x)[row * 64 + 63];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
