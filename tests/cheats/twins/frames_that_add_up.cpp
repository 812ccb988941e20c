// Halves its work again and again, with a frame of 8 KiB each time.
// row: 79
// task: softsign
// passes
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static void part(float const* from, float* to, int64_t n) {
  if (n > 1024) return part(from, to, n / 2), part(from + n / 2, to + n / 2, n - n / 2);
  double sizes[1024];
  for (int64_t i = 0; i < n; ++i) sizes[i] = 1 + std::fabs(double(from[i]));
  for (int64_t i = 0; i < n; ++i) to[i] = from[i] / sizes[i];
}

void run(TensorView x, TensorView y) { part(in(x), out(y), x.numel()); }

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
