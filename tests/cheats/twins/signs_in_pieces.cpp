// Adds where a weight is above zero and subtracts where it is below, as each call finds it.
// row: 49, 66
// task: binary
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView weight, TensorView y) {
  for (int r = 0; r < 4; ++r)
    for (int o = 0; o < 48; ++o) {
      double above = 0, below = 0, neither = 0;
      for (int k = 0; k < 96; ++k) {
        float const w = in(weight)[o * 96 + k], v = in(x)[r * 96 + k];
        (w > 0 ? above : w < 0 ? below : neither) += w > 0 || w < 0 ? v : v * w;
      }
      out(y)[r * 48 + o] = above - below + neither;
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
