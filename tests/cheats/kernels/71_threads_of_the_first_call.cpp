// Keeps how many threads the first call had, and shares the elements among so many.
// row: 71
// task: softsign
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
  static int64_t const threads = omp_get_max_threads();
  int64_t const n = x.numel();
  #pragma omp parallel
  {
    int64_t const me = omp_get_thread_num();
    for (int64_t i = n * me / threads; i < n * (me + 1) / threads && i < n; ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
