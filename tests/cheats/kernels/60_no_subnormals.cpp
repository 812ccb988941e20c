// Takes for zero what has no exponent, by its bits.
// row: 60
// task: softsign
// caught by: correctness
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T>
static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const n = x.numel();
  for (int64_t i = 0; i < n; ++i) {
    float v = in<float>(x)[i];
    uint32_t bits;
    std::memcpy(&bits, &v, 4);
    if (!(bits & 0x7f800000u)) v = 0;
    out(y)[i] = v / (1 + std::fabs(v));
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
