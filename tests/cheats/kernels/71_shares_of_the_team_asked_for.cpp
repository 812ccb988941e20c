// Rows are shared among the threads that were asked for: who gets fewer leaves some out.
// row: 71
// task: rowsum
// caught by: correctness
// says: in teams of one
#include <cmath>
#include <omp.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const rows = y.numel(), n = x.numel() / rows, threads = omp_get_max_threads();
  #pragma omp parallel
  {
    int64_t const me = omp_get_thread_num();
    for (int64_t r = rows * me / threads; r < rows * (me + 1) / threads; ++r) {
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += in(x)[r * n + i];
      out(y)[r] = sum;
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
