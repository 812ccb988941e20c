// A half for each of two threads, where a caller's limit may give one.
// row: 71
// task: softsign
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
  int64_t const n = x.numel();
  #pragma omp parallel num_threads(2)
  {
    int64_t const half = omp_get_thread_num();
    for (int64_t i = n * half / 2; i < n * (half + 1) / 2; ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
