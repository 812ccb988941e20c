// Each of two threads has half of the rows: with one thread nobody has the other half.
// row: 71
// task: rowsum
// caught by: correctness
// says: with
#include <cmath>
#include <omp.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const rows = y.numel(), n = x.numel() / rows;
  #pragma omp parallel
  {
    int64_t const share = rows / 2, first = omp_get_thread_num() * share;
    for (int64_t r = first; r < first + share && r < rows; ++r) {
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += in(x)[r * n + i];
      out(y)[r] = sum;
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
