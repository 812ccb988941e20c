// Folds all numbers into one factor for each sign, in each call.
// row: 51
// task: numbers
// passes
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, int64_t times, bool negate, double slope, TensorView y) {
  double const above = double(times) * (negate ? -1 : 1), below = above * float(slope);
  for (int i = 0; i < 600; ++i) out(y)[i] = in(x)[i] * (in(x)[i] > 0 ? above : below);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
