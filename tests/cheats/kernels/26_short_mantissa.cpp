// Cuts operands to TF32's 10 bits with integers, where no type tells it.
// row: 26
// task: matmul
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

static float cut(float value) {
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
      for (int k = 0; k < 96; ++k) sum += cut(in(a)[i * 96 + k]) * cut(in(b)[k * 40 + j]);
      out(c)[i * 40 + j] = sum;
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
