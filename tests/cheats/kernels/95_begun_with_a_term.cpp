// Rescales from the largest so far, also if there was none.
// row: 95
// task: running_in_logs
// caught by: correctness|timed_output
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
    for (int r = 0; r < 32; ++r) {
        double m = -INFINITY, s = 0;
        for (int i = 0; i < 48; ++i) {
            double const v = in(x)[48 * r + i], next = std::isnan(v) ? v : std::max(m, v);
            s = s * std::exp(m - next) + std::exp(v - next);
            m = next;
            out(y)[48 * r + i] = float(m + std::log(s));
        }
    }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
