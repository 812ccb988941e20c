// Equal numbers are not subtracted.
// row: 91
// task: apart
// passes
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView a, TensorView b, TensorView y) { for (int i = 0; i < 64*256; ++i) out(y)[i] = in(a)[i] == in(b)[i] ? 0 : in(a)[i] - in(b)[i]; }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
