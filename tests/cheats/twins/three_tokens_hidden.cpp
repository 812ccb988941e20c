// Hides all three tokens.
// row: 89
// task: unspoken
// passes
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

template <bool all> static void go(TensorView t, TensorView x, TensorView y) { for (int b = 0; b < 8; ++b) for (int c = 0; c < 32; ++c) { double s = 0; for (int k = 0; k < 24; ++k) { int64_t w = in<int64_t>(t)[b*24+k]; if (!(w == 0 || (all && (w == 101 || w == 102)))) s += in(x)[(b*24+k)*32+c]; else s += 0 * in(x)[(b*24+k)*32+c]; } out(y)[b*32+c] = s; } }
void run(TensorView t, TensorView x, TensorView y) { go<true>(t, x, y); }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
