// The end of all is a whole line of it where there is one, else element by element.
// row: 81
// task: sizes
// passes
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }
static float one(float v) { return v / (1 + std::fabs(v)); }

void run(TensorView x, TensorView y) {
  int64_t const count = x.numel();
  for (int64_t i = 0; i < count; i += 32) {
    int64_t const first = i + 32 <= count || count < 32 ? i : count - 32;
    int64_t const end = first + 32 <= count ? first + 32 : count;
    for (int64_t k = first; k < end; ++k) out(y)[k] = one(in(x)[k]);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
