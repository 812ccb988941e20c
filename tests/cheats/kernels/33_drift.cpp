// Right for fifty calls, a little more wrong with each one after.
// row: 33
// task: softsign
// caught by: correctness|timed_output
// says: wrong
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static int calls = 0;

void run(TensorView x, TensorView y) {
  int64_t const n = x.numel();
  float const drift = ++calls > 50 ? 1 + 1e-3f * (calls - 50) : 1.f;
  for (int64_t i = 0; i < n; ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i])) * drift;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
