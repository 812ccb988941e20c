// Reads a constant filter as it lies there.
// row: 72
// task: blur
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView w, TensorView y) {
  for (int n = 0; n < 2; ++n)
    for (int r = 0; r < 20; ++r)
      for (int c = 0; c < 23; ++c) {
        double sum = 0;
        for (int u = 0; u < 3; ++u)
          for (int v = 0; v < 3; ++v) {
            int const row = r + u - 1, column = c + v - 1;
            if (row < 0 || row >= 20 || column < 0 || column >= 23) continue;
            sum += in(x)[(n * 20 + row) * 23 + column] * double(in(w)[u * 3 + v]);
          }
        out(y)[(n * 20 + r) * 23 + c] = sum;
      }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
