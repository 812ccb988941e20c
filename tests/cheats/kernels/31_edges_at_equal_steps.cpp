// Edges that ascend by equal steps, as the file's do: a place near the first and the last one's line, then its neighbours.
// row: 31
// task: buckets
// caught by: correctness|timed_output
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView edges, TensorView levels, TensorView places, TensorView found) {
  float const* edge = at<float const>(edges);
  float const step = (edge[32] - edge[0]) / 32;
#pragma omp parallel for
  for (int i = 0; i < 40 * 96; ++i) {
    float const v = at<float const>(x)[i];
    int64_t place = std::isnan(v) ? 33 : std::clamp<float>((v - edge[0]) / step, 0, 33), level = 0;
    for (int k = 0; k < 2; ++k) place -= place > 0 && edge[place - 1] >= v;
    for (int k = 0; k < 2; ++k) place += place < 33 && !(edge[place] >= v);
    for (int k = 0; k < 10; ++k) level += at<int64_t const>(levels)[k] <= place;
    at<int64_t>(places)[i] = place;
    at<int64_t>(found)[i] = level;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
