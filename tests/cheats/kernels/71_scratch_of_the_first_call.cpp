// Room for the parts of as many threads as the first call had: more of them share one.
// row: 71
// task: total
// caught by: correctness
// says: with
#include <cmath>
#include <algorithm>
#include <omp.h>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  static size_t const threads = omp_get_max_threads();
  static std::vector<double> parts(threads);
  std::fill(parts.begin(), parts.end(), 0.0);
  #pragma omp parallel
  {
    double sum = 0;
    #pragma omp for schedule(static)
    for (int64_t i = 0; i < x.numel(); ++i) sum += in(x)[i];
    parts[omp_get_thread_num() % threads] = sum;
  }
  double sum = 0;
  for (double part : parts) sum += part;
  out(y)[0] = sum;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
