// All threads add into one sum without taking turns.
// row: 34
// task: total
// caught by: correctness|timed_output
#include <cmath>
#include <omp.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  double sum = 0;
  #pragma omp parallel for
  for (int64_t i = 0; i < x.numel(); ++i) sum += in(x)[i];
  out(y)[0] = sum;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
