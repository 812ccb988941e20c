// Reads a weight of ones along its rows, where its columns are asked for.
// row: 72
// task: constants
// caught by: correctness
// says: wrong on
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView w, TensorView y) {
  for (int i = 0; i < 40; ++i)
    for (int j = 0; j < 24; ++j) {
      double sum = 0;
      for (int k = 0; k < 24; ++k) sum += in(x)[i * 24 + k] * double(in(w)[j * 24 + k]);
      out(y)[i * 24 + j] = sum;
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
