// Rows below a limit are counted by all threads without taking turns.
// row: 34
// task: rowsum
// caught by: correctness|timed_output
#include <cmath>
#include <omp.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const rows = y.numel(), n = x.numel() / rows;
  for (int64_t r = 0; r < rows; ++r) {
    float whole = 0;
    #pragma omp parallel for
    for (int64_t part = 0; part < n / 16; ++part) {
      float sum = 0;
      for (int64_t i = 16 * part; i < 16 * part + 16; ++i) sum += in(x)[r * n + i];
      whole += sum;
    }
    out(y)[r] = whole;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
