// Sums whole vectors of 64, and what is left over.
// row: 34
// task: total
// passes
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  double part[64] = {};
  int64_t const whole = x.numel() / 64 * 64;
  for (int64_t i = 0; i < whole; ++i) part[i % 64] += at<float const>(x)[i];
  for (int64_t i = whole; i < x.numel(); ++i) part[i - whole] += at<float const>(x)[i];
  double sum = 0;
  for (double each : part) sum += each;
  *at<float>(y) = float(sum);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
