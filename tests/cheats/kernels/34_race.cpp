// Four threads add into one element without taking turns.
// row: 34
// task: rowsum
// caught by: correctness
// says: wrong on
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  for (int row = 0; row < 8; ++row) {
    float volatile* total = out(y) + row;
    *total = 0;
    #pragma omp parallel for num_threads(4) schedule(static, 1)
    for (int i = 0; i < 4000; ++i) {
      float const before = *total;
      for (int volatile wait = 0; wait < 1000; wait = wait + 1) {
      }
      *total = before + in(x)[row * 4000 + i];
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
