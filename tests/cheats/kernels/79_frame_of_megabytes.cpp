// A frame of 7.5 MiB, which fits the first thread of a process and few others.
// row: 79
// task: softsign
// caught by: signal
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const n = x.numel();
  volatile float frame[1966080];
  for (int64_t i = 0; i < n; ++i) frame[i * 400] = std::fabs(in(x)[i]);
  for (int64_t i = 0; i < n; ++i) out(y)[i] = in(x)[i] / (1 + frame[i * 400]);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
