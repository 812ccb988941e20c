// Works ahead, within a call: one block of a chain while the block before it is copied.
// row: 68, 7
// task: sines
// passes
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static void chain(float const* from, float* to, int64_t n, float s) {
  for (int64_t i = 0; i < n; ++i) {
    float v = from[i];
    for (int k = 0; k < 12; ++k) v = std::sin(v);
    to[i] = v * s;
  }
}

void run(TensorView x, double s, TensorView y) {
  int64_t const n = x.numel(), size = 512;
  float blocks[2][size];
  for (int64_t start = 0, turn = 0; start < n + size; start += size, turn ^= 1) {
    if (start < n) chain(in(x) + start, blocks[turn], std::min(size, n - start), float(s));
    if (start) std::copy_n(blocks[turn ^ 1], std::min(size, n - start + size), out(y) + start - size);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
