// Starts tasks of a team and waits for all of them.
// row: 77
// task: softsign
// passes
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  float const* from = in(x);
  float* to = out(y);
  int64_t const n = x.numel();
  #pragma omp parallel
  #pragma omp single
  {
    for (int64_t start = 0; start < n; start += 500) {
      #pragma omp task firstprivate(start)
      for (int64_t i = start; i < std::min(start + 500, n); ++i) to[i] = from[i] / (1 + std::fabs(from[i]));
    }
    #pragma omp taskwait
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
