// Each segment looks for its rows.
// row: 84
// task: segments
// passes
#include <algorithm>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView rows, TensorView segments, TensorView y) {
#pragma omp parallel for
  for (int s = 0; s < 20; ++s) {
    double sums[16] = {};
    for (int i = 0; i < 100; ++i)
      if (at<int64_t const>(segments)[i] == s)
        for (int c = 0; c < 16; ++c) sums[c] += at<float const>(rows)[i * 16 + c];
    std::copy_n(sums, 16, at<float>(y) + s * 16);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
