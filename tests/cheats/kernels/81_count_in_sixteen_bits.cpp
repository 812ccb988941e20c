// Elements are counted in sixteen bits, which is enough for all declared sizes.
// row: 81
// task: sizes
// caught by: correctness|out_of_bounds|signal
// says: Workload all by turns: with x (
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }
static float one(float v) { return v / (1 + std::fabs(v)); }

void run(TensorView x, TensorView y) {
  uint16_t const count = uint16_t(x.numel());
  for (uint16_t i = 0; i < count; ++i) out(y)[i] = one(in(x)[i]);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
