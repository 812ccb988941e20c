// A table that the first call fills, while others wait.
// row: 76
// task: softsign
// passes
#include <cmath>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  static std::vector<float> const ones = [] { return std::vector<float>(129, 1.f); }();
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = in(x)[i] / (ones[i % 129] + std::fabs(in(x)[i]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
