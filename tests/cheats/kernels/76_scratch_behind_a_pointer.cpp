// Scratch from the heap, made in the first call; the pointer to it never changes.
// row: 76
// task: softmax
// caught by: screen:static_data
// says: powers outlives its call
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  static float* const powers = new float[3000];
  for (int row = 0; row < 6; ++row) {
    float const* from = in(x) + row * 3000;
    float most = from[0];
    for (int i = 1; i < 3000; ++i) most = std::fmax(most, from[i]);
    double sum = 0;
    for (int i = 0; i < 3000; ++i) sum += powers[i] = std::exp(from[i] - most);
    for (int i = 0; i < 3000; ++i) out(y)[row * 3000 + i] = float(powers[i] / sum);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
