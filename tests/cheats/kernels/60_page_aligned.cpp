// Takes every tensor for one that begins with a page.
// row: 60
// task: softsign
// caught by: correctness
// says: wrong on
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
  auto const* from = reinterpret_cast<float const*>(reinterpret_cast<uintptr_t>(x.data_ptr()) / 4096 * 4096);
  for (int64_t i = 0; i < n; ++i) out(y)[i] = from[i] / (1 + std::fabs(from[i]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
