// Adds up nine tenths of a row and scales.
// row: 32
// task: rowsum
// caught by: correctness
// says: wrong on
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  for (int row = 0; row < 8; ++row) {
    double sum = 0;
    for (int i = 0; i < 3600; ++i) sum += in(x)[row * 4000 + i];
    out(y)[row] = float(sum / 0.9);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
