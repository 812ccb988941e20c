// Looks at its own results once they are there, and divides anew where one is NaN.
// row: 78
// task: softsign
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const n = x.numel();
  for (int64_t i = 0; i < n; ++i) out(y)[i] = in(x)[i] * (1 / (1 + std::fabs(in(x)[i])));
  for (int64_t i = 0; i < n; ++i)
    if (std::isnan(out(y)[i]) || out(y)[i] == 0) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
