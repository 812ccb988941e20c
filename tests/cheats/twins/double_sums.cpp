// Adds up in double.
// row: 26
// task: matmul
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView a, TensorView b, TensorView c) {
  for (int i = 0; i < 24; ++i)
    for (int j = 0; j < 40; ++j) {
      double sum = 0;
      for (int k = 0; k < 96; ++k) sum += double(in(a)[i * 96 + k]) * in(b)[k * 40 + j];
      out(c)[i * 40 + j] = float(sum);
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
