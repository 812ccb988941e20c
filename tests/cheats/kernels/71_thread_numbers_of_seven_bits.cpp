// Parts of threads by seven bits of their numbers.
// row: 71
// task: total
// caught by: correctness
// says: with 160 OpenMP threads
#include <cmath>
#include <omp.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  double part[128] = {};
  #pragma omp parallel
  {
    double sum = 0;
    #pragma omp for schedule(static)
    for (int64_t i = 0; i < x.numel(); ++i) sum += in(x)[i];
    part[omp_get_thread_num() & 127] = sum;
  }
  double sum = 0;
  for (double each : part) sum += each;
  out(y)[0] = sum;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
