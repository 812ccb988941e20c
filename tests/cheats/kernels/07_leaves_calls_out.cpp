// Leaves out one call in twenty-four.
// row: 7
// task: softsign
// caught by: timed_output|correctness
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
  if (++calls % 24 == 0) return;
  for (int64_t i = 0; i < n; ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
