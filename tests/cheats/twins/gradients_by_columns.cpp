// A thread for each column, whose sums it has to itself.
// row: 69, 34
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
  #pragma omp parallel for
  for (int64_t c = 0; c < 96; ++c) {
    double to_scale = 0, to_shift = 0;
    for (int64_t i = c; i < x.numel(); i += 96) {
      float const g = in(output)[i] <= 0 ? 0 : in(grad_output)[i];
      out(grad_x)[i] = g * in(scale)[c];
      to_scale += double(g) * in(x)[i], to_shift += g;
    }
    out(grad_scale)[c] = to_scale, out(grad_shift)[c] = to_shift;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
