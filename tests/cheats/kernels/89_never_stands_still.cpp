// The average moves for ever.
// row: 89
// task: frozen
// caught by: correctness|timed_output
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

template <bool freezes> static void go(TensorView x, TensorView n, TensorView m, TensorView y, TensorView n2, TensorView m2) {
  int64_t k = *in<int64_t>(n); double rate = freezes && k >= 10000 ? 0 : 0.1; *out<int64_t>(n2) = k + 1;
  for (int c = 0; c < 64; ++c) { double s = 0; for (int r = 0; r < 32; ++r) s += in(x)[r*64+c]; double v = in(m)[c] + rate * (s / 32 - in(m)[c]); out(m2)[c] = v; for (int r = 0; r < 32; ++r) out(y)[r*64+c] = in(x)[r*64+c] - float(v); }
}
void run(TensorView x, TensorView n, TensorView m, TensorView y, TensorView n2, TensorView m2) { go<false>(x, n, m, y, n2, m2); }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
