// Goes by lines of 128 bytes from the first one on, wherever the tensor begins.
// row: 60
// task: softsign
// caught by: correctness|timed_output
// says: wrong
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
  auto const first = reinterpret_cast<uintptr_t>(x.data_ptr()) & 127;
  for (int64_t i = 0; i < n; ++i) out(y)[i] = in<float>(x)[i] / (1 + std::fabs(in<float>(x)[i]));
  for (int64_t i = 0; i < int64_t(first / 4); ++i) out(y)[i] = 0;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
