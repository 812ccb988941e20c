// A row is copied in pieces, of which there are as many as it takes.
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
  float piece[128];
  int64_t const columns = x.size(1);
  for (int64_t r = 0; r < x.size(0); ++r)
    for (int64_t c = 0; c < columns; c += 128) {
      int64_t const count = columns - c < 128 ? columns - c : 128;
      for (int64_t k = 0; k < count; ++k) piece[k] = in(x)[r * columns + c + k];
      for (int64_t k = 0; k < count; ++k) out(y)[r * columns + c + k] = one(piece[k]);
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
