// Rows that hold the last token have ended.
// row: 89
// task: ended
// passes
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

template <bool ends> static void go(TensorView t, TensorView l, TensorView y) { for (int r = 0; r < 16; ++r) { bool d = false; for (int c = 0; c < 12; ++c) d |= ends && in<int64_t>(t)[r*12+c] == 50256; for (int c = 0; c < 100; ++c) out(y)[r*100+c] = d ? 0 : in(l)[r*100+c]; } }
void run(TensorView t, TensorView l, TensorView y) { go<true>(t, l, y); }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
