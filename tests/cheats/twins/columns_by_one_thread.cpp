// One thread adds all rows.
// row: 71
// task: columns
// passes
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView y) { for (int c = 0; c < 64; ++c) { double s = 0; for (int r = 0; r < 1000; ++r) s += in(x)[r*64+c]; out(y)[c] = s; } }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
