// The largest of a window by whole numbers of its bits, NaN of either sign above all.
// row: 86
// task: pool
// passes
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

static int32_t key(float v) {
  int32_t bits;
  std::memcpy(&bits, &v, 4);
  if (std::isnan(v)) return INT32_MAX;
  return bits < 0 ? bits ^ 0x7fffffff : bits;
}
static float number(int32_t key) {
  key = key < 0 ? key ^ 0x7fffffff : key;
  float v;
  std::memcpy(&v, &key, 4);
  return v;
}

void run(TensorView x, TensorView y) {
  for (int64_t p = 0; p < 24; ++p)
    for (int i = 0; i < 10; ++i)
      for (int j = 0; j < 10; ++j) {
        int32_t most = INT32_MIN;
        for (int a = 0; a < 3; ++a)
          for (int b = 0; b < 3; ++b) most = std::max(most, key(in(x)[p * 441 + (2 * i + a) * 21 + 2 * j + b]));
        out(y)[p * 100 + i * 10 + j] = number(most);
      }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
