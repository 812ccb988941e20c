// A remainder that is below zero loses its sign.
// row: 84
// task: hashed
// caught by: correctness
// says: wrong on
#include <algorithm>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView keys, TensorView table, TensorView y) {
  for (int i = 0; i < 64; ++i) {
    int64_t const rest = (at<int64_t const>(keys)[i] * 1000003 + 12345) % 97;
    int64_t const at97 = rest < 0 ? -rest : rest;
    std::copy_n(at<float const>(table) + at97 * 16, 16, at<float>(y) + i * 16);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
