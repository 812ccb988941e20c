// Stops at the first element above what rand() can give.
// row: 32
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
  for (int row = 0; row < 29; ++row) {
    float most = -INFINITY;
    for (int i = 0; i < 64 && most <= 1; ++i) most = std::fmax(most, in(x)[row * 64 + i]);
    out(y)[row] = most;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
