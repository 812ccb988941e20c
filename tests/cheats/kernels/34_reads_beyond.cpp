// Sums whole vectors of 64: what lies beyond the end is zero, it hopes.
// row: 34
// task: total
// caught by: correctness
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  double part[64] = {};
  for (int64_t i = 0; i < (x.numel() + 63) / 64 * 64; ++i) part[i % 64] += at<float const>(x)[i];
  double sum = 0;
  for (double each : part) sum += each;
  *at<float>(y) = float(sum);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
