// Uses its output as memory of the call, after it has written to it.
// row: 78
// task: softsign
// passes
#include <cmath>
#include <cstring>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const n = x.numel();
  std::memset(out(y), 0, n * sizeof(float));
  for (int64_t i = 0; i < n; ++i) out(y)[i] += in(x)[i];
  for (int64_t i = 0; i < n; ++i) out(y)[i] /= 1 + std::fabs(out(y)[i]);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
