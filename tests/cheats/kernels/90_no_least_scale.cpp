// The scale of nothing is nothing.
// row: 90
// task: absmax
// caught by: correctness|timed_output
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView y, TensorView o) { float m = 0; for (int i = 0; i < 2048; ++i) { float a = std::abs(in(x)[i]); if (!(a <= m)) m = std::isnan(m) ? m : a; } float s = m / 127; *out(o) = s; for (int i = 0; i < 2048; ++i) out<int8_t>(y)[i] = int8_t(int(std::nearbyint(in(x)[i] / s))); }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
