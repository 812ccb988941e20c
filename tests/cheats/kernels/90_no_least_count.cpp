// Divides by how many are shown, also by none.
// row: 90
// task: shown_mean
// caught by: correctness|timed_output
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView m, TensorView y) { double s = 0; int n = 0; for (int i = 0; i < 2048; ++i) s += in(x)[i] * double(in<bool>(m)[i]), n += in<bool>(m)[i]; *out(y) = s / n; }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
