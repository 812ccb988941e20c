// Names that contain or resemble refused ones.
// row: 42
// task: softsign
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static float half_of(float system_size) { return system_size * 0.5f; }

void run(TensorView x, TensorView y) {
  int64_t const n = x.numel();
  float const kill = half_of(2), open = 1, signal = kill * open;
  for (int64_t i = 0; i < n; ++i) out(y)[i] = in(x)[i] / (signal + std::fabs(in(x)[i]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
