// Gradients are added to what lies in the outputs, as if somebody had cleared them.
// row: 69
// task: gated_backward
// caught by: correctness
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView output, TensorView grad_output, TensorView scale, TensorView shift,
         TensorView grad_x, TensorView grad_scale, TensorView grad_shift) {
  int64_t const columns = scale.numel();
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t const c = i % columns;
    float const g = in(output)[i] <= 0.0f ? 0.0f : in(grad_output)[i];
    out(grad_x)[i] = g * in(scale)[c];
    out(grad_scale)[c] += g * in(x)[i];
    out(grad_shift)[c] += g;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
