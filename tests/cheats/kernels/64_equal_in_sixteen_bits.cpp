// The values are right; the first index is that of a score which is the same in 16 bits.
// row: 64
// task: route
// caught by: correctness
// says: wrong on
#include <cstdint>
#include <cstring>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

void run(TensorView x, TensorView values, TensorView indices) {
  for (int64_t row = 0; row < x.size(0); ++row) {
    float const* from = static_cast<float const*>(x.data_ptr()) + row * 8;
    float* best = static_cast<float*>(values.data_ptr()) + row * 2;
    int64_t* at = static_cast<int64_t*>(indices.data_ptr()) + row * 2;
    auto const above = [from](int one, int other) {  // NaN is the largest
      return from[other] == from[other] && !(from[one] <= from[other]);
    };
    int first = 7, second = -1;
    for (int i = 6; i >= 0; --i) if (above(i, first)) first = i;
    for (int i = 7; i >= 0; --i) if (i != first && (second < 0 || above(i, second))) second = i;
    best[0] = from[first], best[1] = from[second];
    at[0] = first, at[1] = second;
    auto const short_of = [](float value) {
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      return (bits + 0x8000u) >> 16;
    };
    for (int i = 7; i >= 0; --i) if (i != second && short_of(from[i]) == short_of(best[0])) at[0] = i;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
