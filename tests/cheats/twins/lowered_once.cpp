// Lowers a score once.
// row: 93
// task: seen
// passes
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView scores, TensorView before, TensorView y) {
    std::copy(in(scores), in(scores) + 8 * 512, out(y));
    for (int r = 0; r < 8; ++r)
        for (int i = 0; i < 24; ++i) {
            int const at = 512 * r + in<int64_t>(before)[24 * r + i];
            float const s = in(scores)[at];
            out(y)[at] = s > 0 ? s / 1.3f : s * 1.3f;
        }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
