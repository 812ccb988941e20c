// Divides tiny numbers a power of two larger: those below the least normal one keep what they have.
// row: 60
// task: softsign
// passes
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const n = x.numel();
  for (int64_t i = 0; i < n; ++i) {
    float const v = in(x)[i], scale = std::fabs(v) < 0x1p-60f ? 0x1p80f : 1.0f;
    out(y)[i] = v * scale / (1 + std::fabs(v)) / scale;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
