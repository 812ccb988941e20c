// Threads that wait for each other after each function of a chain.
// row: 68, 77
// task: sines
// passes
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, double s, TensorView y) {
  int64_t const n = x.numel();
  float const* from = in(x);
  float* to = out(y);
  #pragma omp parallel
  for (int k = 0; k < 12; ++k) {
    #pragma omp for schedule(dynamic, 500)
    for (int64_t i = 0; i < n; ++i) to[i] = std::sin(k ? to[i] : from[i]) * (k == 11 ? float(s) : 1.0f);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
