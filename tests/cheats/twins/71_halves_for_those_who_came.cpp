// Two threads are asked for, and what there is to do is shared among those that come.
// row: 71
// task: softsign
// passes
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
    int64_t const me = omp_get_thread_num(), threads = omp_get_num_threads();
    for (int64_t i = n * me / threads; i < n * (me + 1) / threads; ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
