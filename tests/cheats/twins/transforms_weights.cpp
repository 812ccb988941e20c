// Transforms the weights in every call.
// row: 30
// task: scaled
// passes
#include <cmath>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, double s, TensorView w, TensorView y) {
  std::vector<float> scaled(in(w), in(w) + 40);
  for (float& each : scaled) each *= float(s);
  for (int i = 0; i < 30 * 40; ++i) out(y)[i] = in(x)[i] * scaled[i % 40];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
