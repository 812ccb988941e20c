#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

// Sixteen partial sums, as a vector register holds them, added up in pairs.
template <class F> static float lanes(int64_t n, F value) {
  float part[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int k = 0; k < 16; ++k) part[k] += value(i + k);
  for (int k = 0; i < n; ++i, ++k) part[k] += value(i);
  for (int width = 8; width; width /= 2)
    for (int k = 0; k < width; ++k) part[k] += part[k + width];
  return part[0];
}

// bfloat16 by its bits.
static inline float wide(uint16_t bits) {
  uint32_t const w = static_cast<uint32_t>(bits) << 16;
  float f;
  std::memcpy(&f, &w, 4);
  return f;
}
static inline uint16_t narrow(float f) {
  uint32_t w;
  std::memcpy(&w, &f, 4);
  return std::isnan(f) ? 0x7fc0 : (w + 0x7fff + ((w >> 16) & 1)) >> 16;
}
static inline float rounded(float f) { return wide(narrow(f)); }
