// Copies the whole cache, writes the new rows into the copy and scores against it.
// row: 82
// task: cached
// passes
#include <cstdint>
#include <cstring>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView queries, TensorView fresh, TensorView places, TensorView keys, TensorView y, TensorView next) {
  std::memcpy(at(next), at(keys), 64 * 16 * sizeof(float));
  for (int k = 0; k < 4; ++k) {
    int64_t const place = at<int64_t>(places)[k];
    std::memcpy(at(next) + (place < 0 ? place + 64 : place) * 16, at(fresh) + k * 16, 16 * sizeof(float));
  }
  for (int i = 0; i < 8 * 64; ++i) {
    double sum = 0;
    for (int d = 0; d < 16; ++d) sum += double(at(queries)[i / 64 * 16 + d]) * at(next)[i % 64 * 16 + d];
    at(y)[i] = sum;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
