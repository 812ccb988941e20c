// Takes the cosine of an angle to be at most one, as it is but for rounding.
// row: 92
// task: angles
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
    for (int r = 0; r < 256; ++r) {
        float s = 0, p = 0, q = 0;
        for (int i = 0; i < 48; ++i) {
            float const u = in(a)[48 * r + i], v = in(b)[48 * r + i];
            s += u * v, p += u * u, q += v * v;
        }
        float const c = s / (std::max(std::sqrt(p), 1e-12f) * std::max(std::sqrt(q), 1e-12f));
        out(y)[r] = std::acos(c);
    }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
