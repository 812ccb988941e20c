// Goes as far as each recording does.
// row: 93
// task: in_time
// passes
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView lengths, TensorView y) {
    for (int r = 0; r < 8; ++r)
        for (int i = 0; i < 16; ++i) {
            float s = 0;
            int const length = in<int64_t>(lengths)[r];
            for (int t = 0; t < length; ++t) s += in(x)[(32 * r + t) * 16 + i];
            out(y)[16 * r + i] = s / in<int64_t>(lengths)[r];
        }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
