// Edges that ascend: as many lie below a number as are no larger than it.
// row: 31
// task: buckets
// passes
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView edges, TensorView levels, TensorView places, TensorView found) {
#pragma omp parallel for
  for (int i = 0; i < 40 * 96; ++i) {
    float const v = at<float const>(x)[i];
    int64_t below = 0, level = 0;
    for (int k = 0; k < 33; ++k) below += !(at<float const>(edges)[k] >= v);
    for (int k = 0; k < 10; ++k) level += at<int64_t const>(levels)[k] <= below;
    at<int64_t>(places)[i] = below;
    at<int64_t>(found)[i] = level;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
