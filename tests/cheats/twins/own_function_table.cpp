// Chooses among its own functions by a table of their addresses.
// row: 61
// task: softsign
// passes
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static float above(float x) { return x / (1 + x); }
static float below(float x) { return x / (1 - x); }

void run(TensorView x, TensorView y) {
  static float (*const sides[])(float) = {above, below};
  int64_t const n = x.numel();
  for (int64_t i = 0; i < n; ++i) out(y)[i] = sides[in(x)[i] < 0](in(x)[i]);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
