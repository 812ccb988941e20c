// Operands cut to seven bits of float16's mantissa, as narrower types have them.
// row: 26
// task: half_product
// caught by: correctness
// says: wrong
#include <cstdint>
#include <cstring>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float cut(TensorView t, int64_t i) {
  uint16_t const bits = static_cast<uint16_t const*>(t.data_ptr())[i] & 0xfff8;
  _Float16 value;
  std::memcpy(&value, &bits, 2);
  return static_cast<float>(value);
}

void run(TensorView x, TensorView weight, TensorView y) {
  int64_t const inner = x.size(1), columns = weight.size(1);
  for (int64_t i = 0; i < y.numel(); ++i) {
    float sum = 0;
    for (int64_t k = 0; k < inner; ++k) sum += cut(x, i / columns * inner + k) * cut(weight, k * columns + i % columns);
    static_cast<_Float16*>(y.data_ptr())[i] = static_cast<_Float16>(sum);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
