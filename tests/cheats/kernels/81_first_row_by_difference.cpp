// Finds the length of a row by where the second one begins.
// row: 81
// task: sizes
// caught by: correctness
// says: Workload all by turns: with x (
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }
static float one(float v) { return v / (1 + std::fabs(v)); }

void run(TensorView x, TensorView y) {
  int64_t const rows = x.size(0), length = rows > 1 ? x.numel() / rows : 0;
  for (int64_t i = 0; i < rows * length; ++i) out(y)[i] = one(in(x)[i]);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
