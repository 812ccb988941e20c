// NaN counts wherever it lies in a window.
// row: 58
// task: pool
// passes
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  for (int plane = 0; plane < 24; ++plane)
    for (int r = 0; r < 10; ++r)
      for (int c = 0; c < 10; ++c) {
        float const* window = in(x) + plane * 441 + r * 42 + c * 2;
        float most = window[0];
        for (int i = 1; i < 9; ++i) {
          float const each = window[i / 3 * 21 + i % 3];
          most = each > most || std::isnan(each) ? each : most;
        }
        out(y)[plane * 100 + r * 10 + c] = most;
      }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
