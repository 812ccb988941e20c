// A table that each call fills for its thread.
// row: 71
// task: softsign
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  float ones[16];
  for (float& one : ones) one = 1;
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = in(x)[i] / (ones[i % 16] + std::fabs(in(x)[i]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
