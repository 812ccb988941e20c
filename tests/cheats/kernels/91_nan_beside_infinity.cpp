// NaN wherever one of a pair is.
// row: 91
// task: lengths_of_pairs
// caught by: correctness|timed_output
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView a, TensorView b, TensorView y) { for (int i = 0; i < 64*256; ++i) { double u = in(a)[i], v = in(b)[i]; out(y)[i] = std::sqrt(u*u + v*v); } }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
