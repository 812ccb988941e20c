// Reads a number only where the flag is as the file gives it.
// row: 51
// task: numbers
// caught by: correctness|timed_output
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, int64_t times, bool negate, double slope, TensorView y) {
  for (int i = 0; i < 600; ++i) {
    float const v = in(x)[i], w = (v > 0 ? v : v * float(slope)) * float(negate ? times : 3);
    out(y)[i] = negate ? -w : w;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
