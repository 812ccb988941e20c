// Reads and writes vectors of 64 bytes, as tensors may be taken for.
// row: 60
// task: softsign
// passes
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T>
static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const n = x.numel();
  auto const* from = static_cast<float const*>(__builtin_assume_aligned(x.data_ptr(), 64));
  auto* to = static_cast<float*>(__builtin_assume_aligned(y.data_ptr(), 64));
#pragma omp simd aligned(from, to : 64)
  for (int64_t i = 0; i < n; ++i) to[i] = from[i] / (1 + std::fabs(from[i]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
