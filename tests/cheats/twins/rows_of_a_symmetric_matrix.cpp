// Reads the rows of a matrix that happens to be symmetric.
// row: 72
// task: covariance
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView a, TensorView x, TensorView y) {
  for (int b = 0; b < 10; ++b)
    for (int i = 0; i < 48; ++i) {
      double sum = 0;
      for (int j = 0; j < 48; ++j) sum += double(in(a)[i * 48 + j]) * in(x)[b * 48 + j];
      out(y)[b * 48 + i] = sum;
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
