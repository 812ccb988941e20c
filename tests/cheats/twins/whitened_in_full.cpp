// The whole product with a whitening matrix.
// row: 73
// task: whitened
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView mean, TensorView w, TensorView y) {
  for (int i = 0; i < 50; ++i)
    for (int j = 0; j < 32; ++j) {
      double sum = 0;
      for (int k = 0; k < 32; ++k) sum += (double(in(x)[i * 32 + k]) - in(mean)[k]) * double(in(w)[k * 32 + j]);
      out(y)[i * 32 + j] = sum;
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
