// Takes the larger of both branches where the slope lies between 0 and 1, and asks for the sign elsewhere.
// row: 51, 67
// task: numbers
// passes
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, int64_t times, bool negate, double slope, TensorView y) {
  float const s = float(slope), sign = negate ? -1 : 1;
  bool const gentle = s > 0 && s < 1;
  for (int i = 0; i < 600; ++i) {
    float const v = in(x)[i], w = gentle ? (v > v * s ? v : v * s) : v > 0 ? v : v * s;
    out(y)[i] = w * float(times) * sign;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
