// Divides by the largest magnitude, also by nothing.
// row: 90
// task: peak
// caught by: correctness|timed_output
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

template <bool least> static void go(TensorView x, TensorView w, TensorView y) { float m = 0; for (int i = 0; i < 16; ++i) for (int j = 0; j < 24; ++j) { double s = 0; for (int k = 0; k < 32; ++k) s += double(in(x)[i*32+k])*in(w)[k*24+j]; out(y)[i*24+j] = s; float a = std::abs(float(s)); if (!(a <= m)) m = std::isnan(m) ? m : a; } if (least && m < 1e-4f) m = 1e-4f; for (int i = 0; i < 384; ++i) out(y)[i] /= m; }
void run(TensorView x, TensorView w, TensorView y) { go<false>(x, w, y); }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
