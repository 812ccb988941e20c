// Rounds results to bfloat16 with integers.
// row: 26
// task: softsign
// caught by: correctness
// says: wrong on
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    float value = in(x)[i] / (1 + std::fabs(in(x)[i]));
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    bits = (bits + 0x8000u) & 0xffff0000u;
    std::memcpy(out(y) + i, &bits, 4);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
