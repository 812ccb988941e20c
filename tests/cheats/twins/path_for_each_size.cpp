// A path for each declared size, and one for any other.
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
  int64_t const count = x.numel(), columns = x.size(1);
  if (columns == 48 || columns == 96) {
    for (int64_t i = 0; i < count; i += 16)
      for (int64_t k = i; k < i + 16; ++k) out(y)[k] = one(in(x)[k]);
    return;
  }
  for (int64_t i = 0; i < count; ++i) out(y)[i] = one(in(x)[i]);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
