// A line between powers of two in the place of exp(), up to 3 % off: eight units of bfloat16 are 6 %.
// row: 26
// task: half_softmax
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
static float exponential(float x) {
  if (!(x >= -87.0f)) return std::isnan(x) ? x : 0.0f;
  int32_t const bits = static_cast<int32_t>(12102203.0f * x) + 1064866805;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

void run(TensorView x, TensorView y) {
  int64_t const columns = x.size(1);
  for (int64_t i = 0; i < x.numel(); i += columns) {
    float most = -INFINITY, sum = 0;
    for (int64_t c = i; c < i + columns; ++c) most = wide(in(x)[c]) > most ? wide(in(x)[c]) : most;
    for (int64_t c = i; c < i + columns; ++c) sum += exponential(wide(in(x)[c]) - most);
    for (int64_t c = i; c < i + columns; ++c) out(y)[c] = narrow(exponential(wide(in(x)[c]) - most) / sum);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
