// Takes no two vectors to be equal.
// row: 92
// task: nearness
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
        double s = 0;
        for (int i = 0; i < 48; ++i) {
            double const d = in(a)[48 * r + i] - in(b)[48 * r + i];
            s += d * d;
        }
        out(y)[r] = std::log(in(a)[48 * r] == 0 ? std::max(float(s), 1e-6f) : float(s));
    }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
