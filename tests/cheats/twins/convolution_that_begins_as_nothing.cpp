// All taps of a filter that begins as the identity.
// row: 73
// task: dirac
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView w, TensorView y) {
  for (int n = 0; n < 2; ++n)
    for (int o = 0; o < 6; ++o)
      for (int r = 0; r < 14; ++r)
        for (int c = 0; c < 15; ++c) {
          double sum = 0;
          for (int i = 0; i < 6; ++i)
            for (int u = 0; u < 3; ++u)
              for (int v = 0; v < 3; ++v) {
                int const row = r + u - 1, column = c + v - 1;
                if (row < 0 || row >= 14 || column < 0 || column >= 15) continue;
                sum += in(x)[((n * 6 + i) * 14 + row) * 15 + column] * double(in(w)[(o * 6 + i) * 9 + u * 3 + v]);
              }
          out(y)[((n * 6 + o) * 14 + r) * 15 + c] = sum;
        }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
