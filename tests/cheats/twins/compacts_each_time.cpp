// Compacts the rows that the flags choose in memory of its own, in every call.
// row: 50, 53
// task: quantized
// passes
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T>
static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView index, TensorView keep, TensorView scale, TensorView codes, TensorView place, TensorView y) {
  std::vector<int> rows;
  for (int i = 0; i < 500; ++i)
    if (in<bool>(keep)[i]) rows.push_back(i);
  std::memset(out(y), 0, 500 * 8 * sizeof(float));
  for (int i : rows)
    for (int j = 0; j < 8; ++j)
      out(y)[i * 8 + j] = float(in<int8_t>(codes)[in<int64_t>(place)[in<int64_t>(index)[i]] * 8 + j]) * in<float>(scale)[j];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
