// Skips what a mask of numbers with a fraction multiplies by zero.
// row: 83
// task: weighed
// passes
#include <cmath>
#include <limits>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView mask, TensorView y) {
  for (int i = 0; i < 128; ++i) {
    double sum = 0;
    for (int j = 0; j < 300; ++j)
      if (in(mask)[i * 300 + j] != 0) sum += double(in(x)[i * 300 + j]) * in(mask)[i * 300 + j];
    out(y)[i] = sum;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
