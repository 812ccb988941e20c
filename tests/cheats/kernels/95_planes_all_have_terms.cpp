// Takes the largest of a plane from all others, also if that is no number.
// row: 95
// task: summed_over_planes
// caught by: correctness|timed_output
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView b, TensorView y) {
    for (int n = 0; n < 8; ++n) {
        float m = -INFINITY;
        for (int i = 0; i < 16 * 24; ++i) m = std::max(m, in(x)[384 * n + i] + in(b)[i % 24]);
        double s = 0;
        for (int i = 0; i < 16 * 24; ++i) s += std::exp(double(in(x)[384 * n + i] + in(b)[i % 24]) - m);
        out(y)[n] = float(std::log(s) + m);
    }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
