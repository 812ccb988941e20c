// A chain of functions, in each call.
// row: 68
// task: sines
// passes
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, double s, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    float v = in(x)[i];
    for (int k = 0; k < 12; ++k) v = std::sin(v);
    out(y)[i] = v * float(s);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
