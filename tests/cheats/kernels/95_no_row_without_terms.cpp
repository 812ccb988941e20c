// Takes the largest of a row from all others, also if there is none.
// row: 95
// task: summed_in_logs
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
    for (int r = 0; r < 64; ++r) {
        float m = -INFINITY;
        double s = 0;
        for (int i = 0; i < 96; ++i) m = std::max(m, in(x)[96 * r + i]);
        double const at = m;
        for (int i = 0; i < 96; ++i) s += std::exp(double(in(x)[96 * r + i]) - at);
        out(y)[r] = float(std::log(s) + at);
    }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
