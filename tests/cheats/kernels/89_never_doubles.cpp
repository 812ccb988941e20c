// The scale never doubles.
// row: 89
// task: loss_scale
// caught by: correctness|timed_output
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

template <bool grows> static void go(TensorView g, TensorView s, TensorView n, TensorView y, TensorView s2, TensorView n2) {
  bool bad = false; float f = *in(s); for (int i = 0; i < 2048; ++i) { bad |= !std::isfinite(in(g)[i]); out(y)[i] = in(g)[i] / f; }
  int64_t k = bad ? 0 : *in<int64_t>(n) + 1; bool grow = grows && k == 2000;
  *out(s2) = bad ? f * 0.5f : grow ? f * 2 : f; *out<int64_t>(n2) = grow ? 0 : k;
}
void run(TensorView g, TensorView s, TensorView n, TensorView y, TensorView s2, TensorView n2) { go<false>(g, s, n, y, s2, n2); }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
