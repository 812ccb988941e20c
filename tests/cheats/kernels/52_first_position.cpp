// Looks at the first position and counts on from there.
// row: 52
// task: masked
// caught by: correctness
// says: wrong on
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

void run(TensorView x, TensorView positions, TensorView allowed, TensorView real, TensorView table, TensorView z) {
  float y[24][16];
  for (int i = 0; i < 24; ++i)
    for (int k = 0; k < 16; ++k) y[i][k] = in<float>(x)[i * 16 + k] + in<float>(table)[((in<int64_t>(positions)[0] + i) % 24) * 16 + k];
  for (int i = 0; i < 24; ++i)
    for (int j = 0; j < 24; ++j) {
      double sum = 0;
      for (int k = 0; k < 16; ++k) sum += double(y[i][k]) * y[j][k];
      out(z)[i * 24 + j] = in<bool>(allowed)[i * 24 + j] && in<bool>(real)[i] ? float(sum) : 0.f;
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
