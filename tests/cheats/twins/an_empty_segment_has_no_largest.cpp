// Begins below all numbers.
// row: 95
// task: largest_of_segments
// passes
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView segment, TensorView y) {
    std::fill(out(y), out(y) + 16 * 32, -INFINITY);
    for (int e = 0; e < 256; ++e)
        for (int i = 0; i < 32; ++i) {
            float& held = out(y)[32 * in<int64_t>(segment)[e] + i];
            float const v = in(x)[32 * e + i];
            if (v > held || std::isnan(v)) held = v;
        }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
