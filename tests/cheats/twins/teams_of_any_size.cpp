// Larger teams than usual, one within another, and one in passing.
// row: 77, 71
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
  #pragma omp parallel num_threads(4)
  {
    #pragma omp for
    for (int64_t i = 0; i < x.numel() / 2; ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
    #pragma omp single
    {
      #pragma omp parallel for num_threads(3)
      for (int64_t i = x.numel() / 2; i < x.numel(); ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
