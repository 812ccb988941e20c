// Each node has itself alone for a neighbour.
// row: 73
// task: neighbours
// caught by: correctness
// says: wrong on
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView a, TensorView x, TensorView y) {
  for (int i = 0; i < 40; ++i)
    for (int j = 0; j < 24; ++j) {
      float const value = in(a)[i * 41] * in(x)[i * 24 + j];
      out(y)[i * 24 + j] = value < 0 ? 0 : value;
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
