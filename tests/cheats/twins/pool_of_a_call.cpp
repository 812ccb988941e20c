// A pool of its own, on the stack, that ends with the call.
// row: 70, 76
// task: softsign
// passes
#include <array>
#include <cmath>
#include <cstddef>
#include <memory_resource>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  std::array<std::byte, 1 << 15> room;
  std::pmr::monotonic_buffer_resource pool(room.data(), room.size());
  int64_t const n = x.numel();
  std::pmr::vector<float> sizes(n, &pool);
  for (int64_t i = 0; i < n; ++i) sizes[i] = 1 + std::fabs(in(x)[i]);
  for (int64_t i = 0; i < n; ++i) out(y)[i] = in(x)[i] / sizes[i];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
