// x times a sigmoid of 1.702 x in the place of gelu, near enough for bfloat16 as a rule but not here.
// row: 26
// task: half_gelu
// caught by: correctness
// says: wrong
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static uint16_t const* in(TensorView t) { return static_cast<uint16_t const*>(t.data_ptr()); }
static uint16_t* out(TensorView t) { return static_cast<uint16_t*>(t.data_ptr()); }
static float wide(uint16_t bits) {
  uint32_t const w = static_cast<uint32_t>(bits) << 16;
  float f;
  std::memcpy(&f, &w, 4);
  return f;
}
static uint16_t narrow(float f) {
  uint32_t w;
  std::memcpy(&w, &f, 4);
  return std::isnan(f) ? 0x7fc0 : (w + 0x7fff + ((w >> 16) & 1)) >> 16;
}

void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const v = wide(in(x)[i]);
    out(y)[i] = narrow(v < -60.0f ? -0.0f : v / (1.0f + std::exp(-1.702f * v)));
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
