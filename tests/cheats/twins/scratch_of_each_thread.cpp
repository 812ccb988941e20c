// A scratch row for each row that a thread works on.
// row: 71
// task: softmax
// passes
#include <cmath>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  #pragma omp parallel for schedule(static)
  for (int row = 0; row < 6; ++row) {
    std::vector<double> powers(3000);
    float const* from = in(x) + row * 3000;
    float most = from[0];
    for (int i = 1; i < 3000; ++i) most = std::fmax(most, from[i]);
    double sum = 0;
    for (int i = 0; i < 3000; ++i) sum += powers[i] = std::exp(from[i] - most);
    for (int i = 0; i < 3000; ++i) out(y)[row * 3000 + i] = powers[i] / sum;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
