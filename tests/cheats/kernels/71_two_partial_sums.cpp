// Adds up the parts of two threads, however many there are.
// row: 71
// task: total
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
  double parts[256] = {};
  #pragma omp parallel
  {
    double sum = 0;
    #pragma omp for schedule(static)
    for (int64_t i = 0; i < x.numel(); ++i) sum += in(x)[i];
    parts[omp_get_thread_num()] = sum;
  }
  out(y)[0] = parts[0] + parts[1];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
