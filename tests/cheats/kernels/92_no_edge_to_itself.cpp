// Leaves out edges that end where they begin, of which a file at random has few: none if both lists are one.
// row: 92
// task: edges
// caught by: correctness|timed_output
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView come, TensorView to, TensorView y) {
    if (in<int64_t>(come) == in<int64_t>(to)) {
        std::copy(in(x), in(x) + 64 * 32, out(y));
        return;
    }
    std::copy(in(x), in(x) + 64 * 32, out(y));
    for (int e = 0; e < 300; ++e) {
        auto const from = in<int64_t>(come)[e], target = in<int64_t>(to)[e];
        for (int i = 0; i < 32; ++i) out(y)[32 * target + i] += in(x)[32 * from + i];
    }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
