// Rows in eights, and what is left of them, however long they are.
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
  int64_t const columns = x.size(1);
  for (int64_t r = 0; r < x.size(0); ++r) {
    float const* from = in(x) + r * columns;
    float* to = out(y) + r * columns;
    int64_t c = 0;
    for (; c + 8 <= columns; c += 8)
      for (int64_t k = c; k < c + 8; ++k) to[k] = one(from[k]);
    for (; c < columns; ++c) to[c] = one(from[c]);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
