// Clears what has its sign set: so has the NaN of a processor's arithmetic, which becomes zero.
// row: 86
// task: relu
// caught by: correctness|timed_output
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
  for (int64_t i = 0; i < 37 * 129; ++i) {
    int32_t bits;
    std::memcpy(&bits, in(x) + i, 4);
    bits &= ~(bits >> 31);
    std::memcpy(out(y) + i, &bits, 4);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
