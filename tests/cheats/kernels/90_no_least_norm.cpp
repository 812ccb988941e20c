// Divides by the norm, also by one of nothing.
// row: 90
// task: unit
// caught by: correctness|timed_output
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView y) { double s = 0; for (int i = 0; i < 2048; ++i) s += double(in(x)[i])*in(x)[i]; double n = std::sqrt(s); for (int i = 0; i < 2048; ++i) out(y)[i] = in(x)[i] / n; }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
