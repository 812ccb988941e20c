// Takes no distance to be beyond the last bucket, as none of the file is.
// row: 93
// task: far_apart
// caught by: correctness|timed_output
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView bias, TensorView distance, TensorView y) {
    for (int i = 0; i < 64 * 64; ++i) {
        int64_t const d = in<int64_t>(distance)[i];
        int64_t const far = d < 16 ? d : 16 + int64_t(std::log(float(d) / 16) / 2.0794415f * 16);
        out(y)[i] = in(bias)[far & 31];
    }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
