// Begins a ring anew after its last row.
// row: 87
// task: ring
// passes
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView ring, TensorView at, TensorView y, TensorView new_ring, TensorView new_at) {
  int64_t const steps = *in<int64_t>(at), place = (steps % 16 + 16) % 16;
  for (int i = 0; i < 512; ++i) out(new_ring)[i] = i / 32 == place ? in(x)[i % 32] : in(ring)[i];
  *out<int64_t>(new_at) = steps + 1;
  for (int c = 0; c < 32; ++c) {
    double sum = 0;
    for (int r = 0; r < 16; ++r) sum += out(new_ring)[r * 32 + c];
    out(y)[c] = sum / 16;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
