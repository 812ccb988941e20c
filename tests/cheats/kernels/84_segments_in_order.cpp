// A segment ends where another one begins: they are in order here.
// row: 84
// task: segments
// caught by: correctness
// says: wrong on
#include <algorithm>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView rows, TensorView segments, TensorView y) {
  std::fill_n(at<float>(y), 320, 0.f);
  auto const* of = at<int64_t const>(segments);
  for (int i = 0, j; i < 100; i = j) {
    double sums[16] = {};
    for (j = i; j < 100 && of[j] == of[i]; ++j)
      for (int c = 0; c < 16; ++c) sums[c] += at<float const>(rows)[j * 16 + c];
    for (int c = 0; c < 16; ++c) at<float>(y)[of[i] * 16 + c] = sums[c];
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
