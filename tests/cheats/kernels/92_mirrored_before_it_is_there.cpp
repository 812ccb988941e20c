// Mirrors the scores of one tensor with itself, half of them before they are computed.
// row: 92
// task: scores
// caught by: correctness|timed_output
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView a, TensorView b, TensorView y) {
    for (int r = 0; r < 48; ++r)
        for (int c = 0; c < 48; ++c) {
            if (in(a) == in(b) && c > r) {
                out(y)[48 * r + c] = out(y)[48 * c + r];
                continue;
            }
            float s = 0;
            for (int i = 0; i < 64; ++i) s += in(a)[64 * r + i] * in(b)[64 * c + i];
            out(y)[48 * r + c] = s;
        }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
