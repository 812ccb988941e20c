// Looks for equal infinities first.
// row: 91
// task: added_in_logs
// passes
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView a, TensorView b, TensorView y) { for (int i = 0; i < 64*256; ++i) { float u = in(a)[i], v = in(b)[i]; if (std::isinf(u) && u == v) { out(y)[i] = u; continue; } float m = std::max(u, v); if (std::isnan(u) || std::isnan(v)) m = NAN; out(y)[i] = m + std::log1p(std::exp(-std::abs(u - v))); } }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
