// Packs a score and its place into one number, of which the eight are sorted.
// row: 64
// task: route
// passes
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

static uint64_t key(float v, int place) {
  uint32_t bits;
  std::memcpy(&bits, &v, 4);
  bits = std::isnan(v) ? ~0u : bits >> 31 ? ~bits : bits | 1u << 31;
  return uint64_t(bits) << 3 | place;
}

void run(TensorView x, TensorView values, TensorView indices) {
  for (int64_t row = 0; row < x.size(0); ++row) {
    uint64_t keys[8];
    for (int i = 0; i < 8; ++i) keys[i] = key(at(x)[row * 8 + i], i);
    std::partial_sort(keys, keys + 2, keys + 8, std::greater<>());
    for (int k = 0; k < 2; ++k) {
      at<int64_t>(indices)[row * 2 + k] = keys[k] & 7;
      at(values)[row * 2 + k] = at(x)[row * 8 + (keys[k] & 7)];
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
