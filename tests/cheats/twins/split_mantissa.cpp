// Three products of operands cut to TF32's 10 bits: the error is that of float32.
// row: 26
// task: matmul
// passes
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static float cut(float value) {
  if (!std::isfinite(value)) return value;  // a carry would leave a zero of a NaN whose bits are all ones
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits = (bits + 0x1000u) & 0xffffe000u;
  std::memcpy(&value, &bits, 4);
  return value;
}

void run(TensorView a, TensorView b, TensorView c) {
  for (int i = 0; i < 24; ++i)
    for (int j = 0; j < 40; ++j) {
      float sum = 0;
      for (int k = 0; k < 96; ++k) {
        float const p = in(a)[i * 96 + k], q = in(b)[k * 40 + j];
        float const p_high = cut(p), q_high = cut(q), p_low = cut(p - p_high), q_low = cut(q - q_high);
        sum += p_low * q_high;
        sum += p_high * q_low;
        sum += p_high * q_high;
      }
      out(c)[i * 40 + j] = sum;
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
