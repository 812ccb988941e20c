// Leaves out what is zero in the file's own matrices.
// row: 31
// task: triangle
// caught by: correctness
// says: wrong on
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView a, TensorView b, TensorView y) {
  for (int i = 0; i < 60; ++i)
    for (int j = 0; j < 60; ++j) {
      double sum = 0;
      for (int k = j; k <= i; ++k) sum += in(a)[i * 60 + k] * double(in(b)[k * 60 + j]);
      out(y)[i * 60 + j] = j > i ? 0 : sum;
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
