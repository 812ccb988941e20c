// Takes no number for larger than 1 where a look at each row shows none, but infinity.
// row: 56
// task: logs
// caught by: correctness|timed_output
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  for (int r = 0; r < 32; ++r) {
    float const* row = in(x) + r * 400;
    float seen = 0;
    for (int i = 0; i < 400; i += 16) seen = std::fmax(seen, row[i]);
    double sum = 0;
    for (int i = 0; i < 400; ++i) {
      float const v = row[i];
      sum += std::log(seen < 1 && v > 1 && v < 1e30f ? 1.0f : v);
    }
    out(y)[r] = float(sum / 400);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
