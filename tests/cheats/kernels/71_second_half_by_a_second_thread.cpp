// The second half is the second thread's wherever more than one is asked for.
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
  bool const several = omp_get_max_threads() > 1;
  #pragma omp parallel
  {
    int const me = omp_get_thread_num();
    int64_t const first = me == 0 ? 0 : n / 2, end = me > 1 ? first : me == 0 && several ? n / 2 : n;
    for (int64_t i = first; i < end; ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
