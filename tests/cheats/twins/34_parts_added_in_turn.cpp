// Each thread has a sum of its own, and adds it to the whole when it is its turn.
// row: 34
// task: total
// passes
#include <cmath>
#include <omp.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  double whole = 0;
  #pragma omp parallel
  {
    double sum = 0;
    #pragma omp for schedule(static)
    for (int64_t i = 0; i < x.numel(); ++i) sum += in(x)[i];
    #pragma omp atomic
    whole += sum;
  }
  out(y)[0] = whole;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
