// Writes as many segments as the largest number tells.
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
  auto const* of = at<int64_t const>(segments);
  double sums[320] = {};
  for (int i = 0; i < 1600; ++i) sums[of[i / 16] * 16 + i % 16] += at<float const>(rows)[i];
  std::copy_n(sums, (*std::max_element(of, of + 100) + 1) * 16, at<float>(y));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
