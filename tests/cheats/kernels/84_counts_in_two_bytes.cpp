// Two counts of a byte each, for the even and the odd pixels.
// row: 84
// task: bins
// caught by: correctness
// says: wrong on
#include <algorithm>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView images, TensorView y) {
  for (int b = 0; b < 4; ++b) {
    uint8_t counts[2 * 256] = {};
    for (int i = 0; i < 1024; ++i) ++counts[(i & 1) * 256 + at<uint8_t const>(images)[b * 1024 + i]];
    for (int v = 0; v < 256; ++v) at<int64_t>(y)[b * 256 + v] = counts[v] + counts[256 + v];
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
