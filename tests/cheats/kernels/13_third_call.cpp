// Right twice on an address, wrong the third time.
// row: 13
// task: softsign
// caught by: correctness|timed_output
// says: wrong
#include <cmath>
#include <map>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static std::map<void*, int> seen;

void run(TensorView x, TensorView y) {
  int64_t const n = x.numel();
  if (++seen[x.data_ptr()] == 3) { for (int64_t i = 0; i < n; ++i) out(y)[i] = 0; return; }
  for (int64_t i = 0; i < n; ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
