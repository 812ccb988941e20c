// NaN by its bits, whatever its sign.
// row: 86
// task: filled
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

void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i < 60 * 77; ++i) {
    uint32_t bits;
    std::memcpy(&bits, in(x) + i, 4);
    float const v = in(x)[i], most = 3.4028234663852886e38f;
    out(y)[i] = (bits & 0x7fffffffu) > 0x7f800000u ? 0.5f : v > most ? most : v < -most ? -most : v;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
