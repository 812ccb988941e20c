// Equal infinities are close.
// row: 91
// task: close
// passes
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView a, TensorView b, TensorView y) { for (int i = 0; i < 64*256; ++i) { double u = in(a)[i], v = in(b)[i]; out<bool>(y)[i] = u == v || (std::isfinite(u) && std::isfinite(v) && std::abs(u - v) <= 1e-2 + std::abs(1e-1 * v)); } }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
