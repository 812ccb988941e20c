// Computes the forward again, and asks that result which elements were cut off.
// row: 69, 80
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
  double sums[2][96] = {};
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t const c = i % 96;
    float const g = in(x)[i] * in(scale)[c] + in(shift)[c] <= 0 ? 0 : in(grad_output)[i];
    out(grad_x)[i] = g * in(scale)[c];
    sums[0][c] += double(g) * in(x)[i], sums[1][c] += g;
  }
  for (int c = 0; c < 96; ++c) out(grad_scale)[c] = sums[0][c], out(grad_shift)[c] = sums[1][c];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
