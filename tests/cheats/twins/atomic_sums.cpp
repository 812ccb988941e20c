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
  for (int row = 0; row < 8; ++row) out(y)[row] = 0;
  #pragma omp parallel for
  for (int part = 0; part < 32; ++part) {
    double mine = 0;
    for (int i = 0; i < 1000; ++i) mine += in(x)[part * 1000 + i];
    #pragma omp atomic
    out(y)[part / 4] += float(mine);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
