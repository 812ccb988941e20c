// Writes the rows that are new, and leaves the others of the new cache as it finds them.
// row: 82
// task: cached
// caught by: correctness
// says: new_keys is wrong
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }
static int64_t const* whole(TensorView t) { return static_cast<int64_t const*>(t.data_ptr()); }
static int64_t* whole_out(TensorView t) { return static_cast<int64_t*>(t.data_ptr()); }

void run(TensorView queries, TensorView fresh, TensorView places, TensorView keys, TensorView y, TensorView new_keys) {
  for (int k = 0; k < 4; ++k)
    for (int d = 0; d < 16; ++d) out(new_keys)[(whole(places)[k] + 64) % 64 * 16 + d] = in(fresh)[k * 16 + d];
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 64; ++j) {
      int row = -1;
      for (int k = 0; k < 4; ++k)
        if (whole(places)[k] == j || whole(places)[k] + 64 == j) row = k;
      float const* key = row < 0 ? in(keys) + j * 16 : in(fresh) + row * 16;
      double sum = 0;
      for (int d = 0; d < 16; ++d) sum += double(in(queries)[i * 16 + d]) * key[d];
      out(y)[i * 64 + j] = sum;
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
