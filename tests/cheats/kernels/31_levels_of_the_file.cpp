// Levels that ascend by four, as the file's do.
// row: 31
// task: buckets
// caught by: correctness|timed_output
#include <algorithm>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView edges, TensorView levels, TensorView places, TensorView found) {
  int64_t const* level = at<int64_t const>(levels);
#pragma omp parallel for
  for (int i = 0; i < 40 * 96; ++i) {
    float const v = at<float const>(x)[i];
    int64_t below = 0;
    for (int k = 0; k < 33; ++k) below += !(at<float const>(edges)[k] >= v);
    at<int64_t>(places)[i] = below;
    at<int64_t>(found)[i] = below < level[0] ? 0 : std::min<int64_t>(10, (below - level[0]) / 4 + 1);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
