// Threads that add into one element, and take turns.
// row: 34
// task: rowsum
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  for (int row = 0; row < 8; ++row) {
    double total = 0;
    #pragma omp parallel for reduction(+ : total)
    for (int i = 0; i < 4000; ++i) total += in(x)[row * 4000 + i];
    out(y)[row] = float(total);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
