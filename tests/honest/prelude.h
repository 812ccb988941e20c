#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
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
