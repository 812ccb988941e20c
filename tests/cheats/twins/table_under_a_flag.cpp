// A table that one call fills, whichever comes first.
// row: 76
// task: softsign
// passes
#include <cmath>
#include <mutex>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static std::once_flag once;
static float ones[129];

void run(TensorView x, TensorView y) {
  std::call_once(once, [] {
    for (float& one : ones) one = 1;
  });
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = in(x)[i] / (ones[i % 129] + std::fabs(in(x)[i]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
