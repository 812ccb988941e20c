// Flags as bytes, one for True.
// row: 21
// task: flags
// passes
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) at<uint8_t>(y)[i] = at<float const>(x)[i] > 0;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
