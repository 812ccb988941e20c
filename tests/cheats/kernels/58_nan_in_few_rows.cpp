// A softmax whose largest element begins at the first and passes over NaN, for rows as few as six.
// row: 58
// task: softmax
// caught by: correctness|timed_output
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int const n = 3000;
  for (int64_t r = 0; r < x.numel() / n; ++r) {
    float const* from = in(x) + r * n;
    float* to = out(y) + r * n;
    float largest = -INFINITY;
    for (int i = 0; i < n; ++i) largest = from[i] > largest ? from[i] : largest;
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += to[i] = from[i] == from[i] ? std::exp(from[i] - largest) : 0;
    for (int i = 0; i < n; ++i) to[i] = float(to[i] / sum);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
