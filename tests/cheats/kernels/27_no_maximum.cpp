// Leaves the row's maximum out: right until exp overflows.
// row: 27
// task: softmax
// caught by: correctness
// says: wide inputs
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  for (int row = 0; row < 6; ++row) {
    double sum = 0;
    for (int i = 0; i < 3000; ++i) sum += std::exp(in(x)[row * 3000 + i]);
    for (int i = 0; i < 3000; ++i) out(y)[row * 3000 + i] = float(std::exp(in(x)[row * 3000 + i]) / sum);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
